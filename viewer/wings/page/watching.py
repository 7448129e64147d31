"""Repeated reading for a live page, in a thread of its own, for as long as it has viewers."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape.lock import Identity, identity
from wiretape.viewer.source.base import POLL_SECONDS, pause_s
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape_source import TapeSource
from wiretape.viewer.wings.page.values import PageSource


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a page, and the error, if any; without a value nothing could be read yet."""

    value: JsonObject | None = None
    trouble: str = ""


class SourceWatch:
    """A thread that reads a source; `on_reading` is called there with each."""

    def __init__(self, tape: Path, source: PageSource, on_reading: Callable[[Reading], object]) -> None:
        self._tape, self._source, self._on_reading = tape, source, on_reading
        self._stopped = threading.Event()
        self._last_reading = Reading()
        self._file: Identity | None = None
        # The thread only reads: ending it loses no data.
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def end(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with TapePlace(self._tape).opened() as tape_source:
                    self._follow(tape_source)
            except WiretapeError as error:
                self._report(Reading(self._last_reading.value, safe(str(error))))
            except Exception as error:  # noqa: BLE001 - any failure is reported on the page
                self._report(Reading(self._last_reading.value, safe(f"a fault of wiretape's own: {error!r}")))
            self._stopped.wait(POLL_SECONDS["retry"])

    def _follow(self, tape_source: TapeSource) -> None:
        """Read as long as the file is the one that was opened."""
        file, version, due = identity(self._tape), None, 0
        is_replaced = None not in (file, self._file) and file != self._file
        self._file = file or self._file
        while not self._stopped.is_set() and identity(self._tape) == file:
            began, latest = SYSTEM.now(), tape_source.version()
            wait = POLL_SECONDS["page"]
            if latest != version or began >= due:
                version = latest
                value = self._source.read(tape_source)
                self._report(Reading(value | {"live": value["live"] | {"replaced": is_replaced}}))
                wait = pause_s(self._source.follower, SYSTEM.now() - began)  # the longer it took, the longer the rest
                due = began + int(self._source.rest_seconds * 1e9)
            self._stopped.wait(wait)

    def _report(self, reading: Reading) -> None:
        if not self._stopped.is_set():
            self._last_reading = reading
            self._on_reading(reading)

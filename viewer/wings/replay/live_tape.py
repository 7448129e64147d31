"""A tape that a program records to, from a thread of its own, while it makes its calls."""

import asyncio
import atexit
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from wiretape.recorder.commands import options
from wiretape.recorder.errors import NotFound
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import pointing, service
from wiretape.recorder.relay.apis import BY_NAME
from wiretape.recorder.tape.journal import Finished
from wiretape.viewer.export.frames import Tape
from wiretape.viewer.record.rows import DetailRow
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.wings.replay import testenv
from wiretape.viewer.wings.replay.thread import LoopThread

_THREAD_SECONDS: Final = 30.0
"""Timeout for the end of a thread whose recorder has stopped."""


def record(
    path: str | Path | None = None,
    *,
    upstream: str | Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    ca_file: str | Path | None = None,
) -> "LiveTape":
    """Start to record the calls of this program, until the `with` block ends or `close` is called.

        with wiretape.record(upstream="openai") as tape:
            client = openai.OpenAI(base_url=tape.url_of("openai"))
            client.chat.completions.create(model="gpt-5", messages=messages)
            print(tape.wait().latency_ms)

    `path` is the tape; one that is there is added to; None is the default one, as for `open_tape`. `upstream` is an API
    by its name, a URL, NAME=URL, or several of them, as `wiretape record --upstream` takes it; none: the APIs that
    variables such as `OPENAI_BASE_URL` name, and the well-known ones. `labels` are set on every exchange, `ca_file` has
    certificates (PEM) to trust besides the system's.

    The relay is in a thread: any client reaches it, of threads, asyncio or a subprocess, also in a notebook. It shares
    the interpreter's lock with a program that computes; `wiretape run` has a process of its own. Raises ValueError for
    a wrong argument, and `wiretape.recorder.errors.WiretapeError` if the tape cannot be written. It blocks until the
    tape is open, some tenths of a second: in asyncio code, call it by `asyncio.to_thread`.
    """
    upstream_texts = (upstream,) if isinstance(upstream, str) else tuple(upstream)
    try:
        upstreams = options.read_upstreams(upstream_texts) if upstream_texts else []
        label_values = options.read_labels(tuple(f"{name}={value}" for name, value in (labels or {}).items()))
    except click.UsageError as error:
        raise ValueError(error.message) from None
    plan = pointing.plan_base_urls(upstreams, os.environ, ())
    tape = options.tape_path(None if path is None else Path(path).expanduser())
    certificates = None if ca_file is None else Path(ca_file).expanduser()
    settings = service.RecorderOptions(
        tape, plan.upstreams, labels=label_values, ca_file=certificates, purpose="wiretape.record()"
    )
    return LiveTape(settings, plan)


class LiveTape(Tape):
    """A tape while this program records to it: the methods of `Tape`, where its calls go, and its finished exchanges.

    `url` is the base URL below which each upstream has its place, `/NAME`; a single URL is at the root. `variables` are
    the environment variables that send programs there: `subprocess.run(command, env=os.environ | tape.variables)`.
    Iterating yields the exchanges that nobody has taken, waits for those that still run, and ends when none does.

    `wait`, iterating and `close` block; in asyncio code, call them by `asyncio.to_thread`. Any thread may call them.
    """

    def __init__(self, settings: service.RecorderOptions, plan: pointing.PointingPlan) -> None:
        super().__init__(settings.tape)
        self._upstreams = [upstream.name for upstream in plan.upstreams]
        self._change = threading.Condition()
        self._ids: deque[str] = deque()
        self._faults: list[str] = []
        self._is_closing = self._is_closed = False
        self._process = os.getpid()
        # Unlike the thread of the pytest plugin, it may not pass the guard of a marked test.
        self._thread = LoopThread("recorder of wiretape.record()")
        try:
            self._recorder = self._thread.call(self._started(settings))
        except BaseException:
            self._thread.close(_THREAD_SECONDS)
            raise
        self.url = self._recorder.base
        self.variables = {**plan.values(self.url), **testenv.bypasses(os.environ)}
        atexit.register(self.close)

    async def _started(self, settings: service.RecorderOptions) -> service.Recorder:
        observer = service.Observer(finished=self._finished, failed=self._faults.append)
        recorder = service.Recorder(settings, observer)
        await recorder.start()
        return recorder

    def _finished(self, exchange: Finished) -> None:
        with self._change:
            self._ids.append(exchange.id)
            self._change.notify_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def url_of(self, name: str) -> str:
        """Return the base URL that the SDK of an API expects, such as `openai`, or that of a named upstream.

        Raises ValueError for one that is not recorded.
        """
        url = testenv.base_url(self.url, name, self.variables) if name in BY_NAME else f"{self.url}/{name}"
        if url in self.variables.values() or name in self._upstreams:
            return url
        recorded = ", ".join(filter(None, self._upstreams)) or "one, at the root"
        raise ValueError(f"{name!r} is not among the upstreams ({recorded}): add it to upstream=")

    def wait(self, timeout: float | None = 60.0) -> DetailRow:
        """Return the next finished exchange that nobody has taken, as soon as it is on the tape.

        Raises TimeoutError after `timeout` seconds (None: never), and `NotFound` if the recording has ended and all
        exchanges are taken.
        """
        with self._change:
            if not self._change.wait_for(lambda: self._ids or self._is_closed, timeout):
                running_count = counted(self._recorder.unfinished, "exchange")
                raise TimeoutError(f"no exchange finished within {timeout:g} s; {running_count} running")
            if not self._ids:
                raise NotFound("no exchange is left: the recording has ended, and all of them were taken")
            id = self._ids.popleft()
        return self._detail(id)

    def __iter__(self) -> Iterator[DetailRow]:
        while True:
            with self._change:
                while not self._ids:
                    if self._is_closed or not self._recorder.unfinished:
                        return
                    # The count of running exchanges also falls if a writer gives up, without a message.
                    self._change.wait(0.5)
                id = self._ids.popleft()
            yield self._detail(id)

    def _detail(self, id: str) -> DetailRow:
        with TapePlace(self.path).opened() as source:
            return source.exchange(source.find(id)).detail()

    def close(self) -> None:
        """End the recording; running exchanges have 7 s to end. What was recorded can still be taken and read.

        Warns (RuntimeWarning) if anything could not be stored.
        """
        with self._change:
            if self._is_closing or os.getpid() != self._process:  # a fork has no such thread
                return
            self._is_closing = True
        atexit.unregister(self.close)
        try:
            stopping = asyncio.run_coroutine_threadsafe(self._recorder.stop(), self._thread.loop)
            try:
                stopping.result()
            except KeyboardInterrupt:  # by who does not want to wait for running exchanges
                self._thread.loop.call_soon_threadsafe(self._recorder.cut)
                stopping.result()
                raise
            finally:
                self._thread.close(_THREAD_SECONDS)
        finally:
            with self._change:
                self._is_closed = True
                self._change.notify_all()
        totals = self._recorder.totals()
        lost = {"byte": totals.missing_bytes, "exchange": totals.missing_exchanges}
        missing = [f"{counted(count, thing)} could not be stored" for thing, count in lost.items() if count]
        for problem in (*self._faults, *totals.problems, *missing):
            warnings.warn(f"wiretape.record(): {problem}", RuntimeWarning, stacklevel=2)

"""Records missing requests to a tape: `Replay` hands them over to a recorder's relay, tap and writer.

The tape is read by other connections, which cannot write. For a tape that is text, or that is to hold no secrets, the
recorder writes to a private database, from which new exchanges are added to the tape, masked: a process that is killed
at any moment leaves no secret in it. The lines of a text stay as they are, byte for byte. A recording of a request may
replace an older one, unless that is better (`Replacing`): a failed run does not spoil the cassette.
"""

import asyncio
import contextlib
import fcntl
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from wiretape.recorder import paths, private
from wiretape.recorder.decode.exchange import FAILURES, Standing
from wiretape.recorder.errors import TapeBusy, WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import providers, service
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.outward import Proxies
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.proxy import RelayedExchange
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.upstream import Timeouts
from wiretape.recorder.tape import backup, cut, file, journal, lock, merge, retention
from wiretape.recorder.tape.journal import Finished
from wiretape.recorder.tape.losses import Totals
from wiretape.recorder.tape.masking import SECRETS, Masker, Rules
from wiretape.viewer import outfile
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.replayed import ExchangeHead
from wiretape.viewer.wings.replay.planning import ToRecord

SETTLE_SECONDS = 3.0
"""Time that a request waits for a finished recording of the same one to be on the tape."""

Recorded = Callable[[journal.Finished, bool], None]
"""Callback for an exchange that is on the tape now; True if it stays: a failed one never replaces a good one."""


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Options of a recording; an empty `upstreams` stands for the well-known APIs.

    The rules of `redaction` apply to a tape that is text, and with `masks_database` to any other.
    """

    tape: Path
    upstreams: Sequence[Upstream] = ()
    limits: Timeouts = field(default_factory=Timeouts)
    proxies: Proxies | None = None
    ca_file: Path | None = None
    purpose: str = "wiretape serve --record"
    redaction: Rules = SECRETS
    masks_database: bool = False

    @property
    def is_text(self) -> bool:
        return self.tape.suffix == lock.TEXT_SUFFIX


@dataclass(slots=True)
class _PendingExchange:
    """An exchange that is not on the tape as a whole yet."""

    exchange: RelayedExchange
    key: Hashable | None
    to_record: ToRecord
    on_recorded: Recorded
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class RecordedTape:
    """A tape as a database to record to, `path`: the tape itself, or a private copy of it until the end.

    A process that is killed leaves the copy behind: it may hold the only copy of a recording.
    """

    def __init__(self, tape: Path, *, is_private: bool) -> None:
        """Make the copy; the tape need not be there. Raises `TapeError` and its kinds."""
        self._cleanup = contextlib.ExitStack()
        self.path = tape
        if is_private:
            with contextlib.ExitStack() as cleanup:
                directory = Path(tempfile.mkdtemp(prefix="wiretape-"))
                cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
                self.path = directory / f"{tape.stem}.db"
                if paths.is_file(tape) and tape.stat().st_size:  # an empty file becomes a tape
                    if tape.suffix == lock.TEXT_SUFFIX:
                        cut.make_tape_at(tape, self.path)
                    else:
                        backup.copy(tape, self.path)
                self._cleanup = cleanup.pop_all()

    def keep(self) -> None:
        self._cleanup.pop_all()

    def close(self) -> None:
        self._cleanup.close()


class Recording:
    """Records to one tape from `start` to `stop`; `path` is the database to read. Used by one event loop."""

    def __init__(
        self, options: RecordingOptions, on_trouble: Callable[[str], None], on_refused: Callable[[Refusal], None]
    ) -> None:
        self._options, self._on_trouble, self._on_refused = options, on_trouble, on_refused
        self._tape: RecordedTape
        self._recorder: service.Recorder
        self._pending: dict[str, _PendingExchange] = {}
        self._settled: set[Hashable] = set()
        self._replacing = Replacing()
        self._target: TextFile | DatabaseFile | None = None
        """The tape to which the recordings in a private copy are added."""
        self._saving: asyncio.Task[None] | None = None
        self._saver = ThreadPoolExecutor(1, "cassette")
        self._is_new = asyncio.Event()
        self._is_stopping = False

    @property
    def path(self) -> Path:
        return self._tape.path

    @property
    def masked_count(self) -> int:
        return 0 if self._target is None else self._target.masked_count

    async def start(self, served_at: str) -> None:
        """Open the tape, or make it if it is not there; clients call at `served_at`. Raises `WiretapeError`."""
        options = self._options
        is_private = options.is_text or options.masks_database
        self._tape = await asyncio.to_thread(RecordedTape, options.tape, is_private=is_private)
        upstreams = options.upstreams or providers.well_known()
        settings = service.RecorderOptions(
            self.path,
            upstreams,
            limits=options.limits,
            proxies=options.proxies,
            ca_file=options.ca_file,
            purpose=options.purpose,
        )
        observer = service.Observer(
            finished=self._finished,
            trouble=lambda message: self._on_trouble(f"storing: {message or 'works again'}"),
            refused=self._on_refused,
            failed=self._on_trouble,
        )
        try:
            self._recorder = service.Recorder(settings, observer, served_at=served_at)
            if options.is_text:
                self._target = TextFile(options.tape, self.path, self._recorder.session, options.redaction)
            elif is_private:
                self._target = DatabaseFile(options.tape, self.path, options.redaction, options.purpose)
            if self._target is not None:  # before anything is recorded that could not be kept
                await asyncio.to_thread(self._target.check)
            await self._recorder.start()
            await self._recorder.tap.ready()  # what is served is read from the tape
        except BaseException:
            self._tape.close()
            raise
        if options.is_text:  # a database is opened by readers in this process, which would drop the locks of a writer
            self._saving = asyncio.create_task(self._save_now_and_then())

    def labelled(
        self, labels: Mapping[str, str], on_recorded: Recorded = lambda _exchange, _is_kept: None
    ) -> "LabelledUpstreams":
        """Return the `Upstreams` of a `Replay` that set labels on their recordings."""
        return LabelledUpstreams(self, labels, on_recorded)

    def cut(self) -> None:
        """End at once a `stop` that waits for running recordings."""
        self._recorder.cut()

    async def stop(self) -> Totals:
        """Record nothing more; running recordings may take some seconds. A private database is gone then."""
        self._is_stopping = True
        await self._recorder.stop()
        await self._keep()
        self._saver.shutdown()
        self._tape.close()
        return self._recorder.totals()

    async def settle(self, key: Hashable | None) -> bool:
        """Wait for recordings with this key that have ended; return True if there are any on the tape."""
        if key is None:
            return False
        live = self._recorder.proxy.live
        finished = [
            pending for pending in self._pending.values() if pending.key == key and pending.exchange not in live
        ]
        with contextlib.suppress(TimeoutError):  # answered from finished recordings
            async with asyncio.timeout(SETTLE_SECONDS):
                for pending in finished:
                    await pending.settled.wait()
        return key in self._settled

    async def settle_all(self) -> None:
        """Wait for all recordings, for `SETTLE_SECONDS` at most, to be on the tape."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                for pending in [*self._pending.values()]:
                    await pending.settled.wait()

    def relay(
        self,
        client: Client,
        request: Request,
        key: Hashable | None,
        to_record: ToRecord,
        labels: Mapping[str, str],
        on_recorded: Recorded,
    ) -> RelayedExchange | Refusal | None:
        """Relay a request that no recording answers, as `Upstreams.relay` does, and record its exchange.

        `key` is the request's, by which later ones find the recording.
        """
        if self._is_stopping:
            return Refusal(503, "wiretape is being stopped, and records nothing more")
        proxy = self._recorder.proxy
        route = providers.route(proxy.upstreams, request.target)
        if route is None:
            advice = "no upstream is served at this path either: name it by --upstream URL, or begin the path by /NAME/"
            return Refusal(404, f"{to_record.miss.message}; {advice}, such as /openai/")
        exchange = proxy.relay(client, request, *route, own_labels=labels)
        if exchange is not None:
            self._pending[exchange.id] = _PendingExchange(exchange, key, to_record, on_recorded)
        return exchange

    def _finished(self, exchange: journal.Finished) -> None:
        pending = self._pending.pop(exchange.id, None)
        if pending is not None:
            pending.settled.set()
            self._settled.add(pending.key)
            is_kept = self._replacing.add(exchange, pending.to_record.replaces)
            self._is_new.set()
            pending.on_recorded(exchange, is_kept)

    async def _save_now_and_then(self) -> None:
        while True:
            await self._is_new.wait()
            await self._save()
            await asyncio.sleep(1)  # the text is written as a whole, so not for each recording of many

    async def _save(self) -> bool:
        """Add the recordings to the tape; return True on success."""
        assert self._target is not None
        self._is_new.clear()
        kept_ids, replaced_ids = list(self._replacing.kept_ids), set(self._replacing.replaced_ids)
        try:  # in one thread, so that the last write is the newest
            await asyncio.get_running_loop().run_in_executor(self._saver, self._target.save, kept_ids, replaced_ids)
        except WiretapeError as error:
            self._on_trouble(str(error))
            return False
        return True

    async def _keep(self) -> None:
        """Save the new recordings to the target; without one they are on the tape: erase those they replace."""
        if self._target is None:
            await asyncio.to_thread(self._erase)
            return
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.wait([self._saving])
        if self._replacing.kept_ids and not await self._save():
            self._tape.keep()  # the private copy is the only one
            self._on_trouble(f"the recordings are kept in {self.path}")

    def _erase(self) -> None:
        replaced_ids = sorted(self._replacing.replaced_ids)
        if not replaced_ids:
            return
        try:
            with file.writing(self.path, self._options.purpose, create=False) as connection:
                for _ in retention.erase(connection, replaced_ids):
                    pass
        except TapeBusy as error:
            count = counted(len(replaced_ids), "older recording")
            self._on_trouble(f"{count} stay on the tape, to be removed by the next --record all: {error}")
        except WiretapeError as error:
            self._on_trouble(f"replaced recordings could not be removed: {error}")


@dataclass(frozen=True, slots=True)
class LabelledUpstreams:
    """The `Upstreams` of a `Replay`: one recording, with labels of their own."""

    recording: Recording
    labels: Mapping[str, str]
    on_recorded: Recorded

    def _key(self, to_record: ToRecord) -> Hashable | None:
        return None if to_record.key is None else (*sorted(self.labels.items()), to_record.key)

    async def settle(self, to_record: ToRecord) -> bool:
        return await self.recording.settle(self._key(to_record))

    def relay(self, client: Client, request: Request, to_record: ToRecord) -> RelayedExchange | Refusal | None:
        key = self._key(to_record)
        return self.recording.relay(client, request, key, to_record, self.labels, self.on_recorded)


class TextFile:
    """The text at `path`, to which the exchanges of one session in the database `tape` are added, or some removed."""

    def __init__(self, path: Path, tape: Path, session: str, redaction: Rules = SECRETS) -> None:
        self._path, self._tape, self._session = paths.real(path), tape, session
        self._redaction = redaction
        self.masked_count = 0
        """The secrets that were masked in the exchanges of the session."""

    def check(self) -> None:
        """Raise `WiretapeError` if the text cannot be written, before anything is recorded."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        if paths.is_directory(self._path):
            raise self._unwritable("it is a directory")
        if not os.access(self._path.parent, os.W_OK):
            raise self._unwritable("its directory is read-only")

    def _unwritable(self, cause: str) -> WiretapeError:
        return WiretapeError(f"{self._path} cannot be written ({cause}): name another tape, or see to it")

    def save(self, kept_ids: Collection[str], removed_ids: Collection[str]) -> None:
        """Replace the text as a whole: its lines stay, `kept_ids` are appended, `removed_ids` removed.

        Changes by others since then stay, too. Raises `WiretapeError`, and leaves the text as it was.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self._path.parent):
                old_text = self._path.read_bytes() if paths.exists(self._path) else b""
                last_line_end = b"" if not old_text or old_text.endswith(b"\n") else b"\n"
                lines = [*cut.without(io.BytesIO(old_text + last_line_end), self._session, removed_ids)]
                mask = Masker(self._redaction)
                with TapePlace(self._tape).opened() as source:
                    new = list(source.lines(source.numbers_of(kept_ids), mask))
                self.masked_count = mask.count
                outfile.replace_private(self._path, b"".join([*lines, *(new[1:] if lines else new)]))
        except (OSError, ValueError) as error:
            raise self._unwritable(str(error)) from error


class DatabaseFile:
    """The tape at `path`, to which exchanges of the database `copy` are added, masked, or some removed."""

    def __init__(self, path: Path, copy: Path, redaction: Rules, purpose: str) -> None:
        self._path, self._copy, self._redaction, self._purpose = paths.real(path), copy, redaction, purpose
        self.masked_count = 0

    def check(self) -> None:
        """Raise `TapeBusy` if the tape cannot be written, before anything is recorded."""
        lock.check_place(self._path)

    def save(self, kept_ids: Collection[str], removed_ids: Collection[str]) -> None:
        """Add the `kept_ids` exchanges that the tape does not have, and remove the `removed_ids`.

        Each transaction adds whole, masked exchanges: a kill in between leaves the rest in the private copy. Raises
        `WiretapeError`.
        """
        mask = Masker(self._redaction)
        with TapePlace(self._copy).opened() as source:
            lines = list(source.lines(source.numbers_of(kept_ids), mask))
        with (
            private.directory("wiretape-masked-", "recordings without their secrets") as directory,
            _locked(self._path.parent),
            file.writing(self._path, self._purpose) as connection,
        ):
            masked = directory / "tape.db"
            cut.make_temporary_tape(lines, masked, "the recordings")
            for _ in retention.erase(connection, sorted(removed_ids)):
                pass
            for _ in merge.copy(connection, [masked], merge.plan(connection, [masked])):
                pass
        self.masked_count = mask.count


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold a directory: programs that record to one file take turns."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Replacing:
    """The ids of new recordings to keep, and of recordings to remove: older ones, or new ones that are worse."""

    def __init__(self) -> None:
        self.kept_ids: list[str] = []
        self.replaced_ids: set[str] = set()

    def add(self, new: Finished, older: Sequence[ExchangeHead]) -> bool:
        """Add a recording, with the older ones that it may replace; return True if it stays.

        It does not if one of those is better: whole, where this one failed or the client left it, or left, where this
        one failed.
        """
        if any(_rank(head.outcome) > _rank(new.outcome) for head in older):
            self.replaced_ids.add(new.id)
            return False
        self.kept_ids.append(new.id)
        self.replaced_ids.update(head.id for head in older)
        return True


def _rank(outcome: Standing) -> int:
    return 0 if outcome in FAILURES else 1 if outcome == "client_closed" else 2

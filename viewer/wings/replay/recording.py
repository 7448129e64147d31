"""Records missing requests to a tape: `Replay` hands them over to a recorder's relay, tap and writer.

The tape is read by other connections, which cannot write. For a tape that is text, the recorder writes to a private
database, from which new exchanges are added to the text: its lines stay as they are, byte for byte. A recording
of a request may replace an older one, unless that is better (`Replacing`).
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
from wiretape.recorder.decode.exchange import FAILURES
from wiretape.recorder.errors import TapeBusy, WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import providers, service
from wiretape.recorder.relay.client import Client, Request
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.outward import Proxies
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.proxy import RelayedExchange
from wiretape.recorder.relay.upstream import Timeouts
from wiretape.recorder.tape import cut, file, journal, lock, merge, retention
from wiretape.recorder.tape.journal import Finished
from wiretape.recorder.tape.losses import Totals
from wiretape.recorder.tape.masking import SECRETS, Masker, Rules
from wiretape.recorder.tape.schema import exchanges
from wiretape.viewer import outfile
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.replayed import ExchangeHead
from wiretape.viewer.wings.replay.planning import ToRecord

SETTLE_SECONDS = 3.0
"""A request waits this long for the recording of the same one, which has ended, to be on the tape."""
_SAVE_SECONDS = 1.0
"""Shortest interval between writes of a cassette's text, in seconds, except at the end."""

Recorded = Callable[[journal.Finished, bool], None]
"""Callback for an exchange that is on the tape now; True if it stays: a failed one never replaces a good one."""


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Options of a recording; an empty `upstreams` stands for the well-known APIs.

    What the rules of `redaction` say is replaced in a tape that is text, and with `masks_database` in one that is not.
    """

    tape: Path
    upstreams: Sequence[Upstream] = ()
    limits: Timeouts = field(default_factory=Timeouts)
    proxies: Proxies | None = None
    ca_file: Path | None = None
    purpose: str = "wiretape serve --record"
    redaction: Rules = SECRETS
    masks_database: bool = False


@dataclass(slots=True)
class _PendingExchange:
    """An exchange that is not on the tape as a whole yet."""

    exchange: RelayedExchange
    key: Hashable | None
    to_record: ToRecord
    on_recorded: Recorded
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class RecordedTape:
    """A tape as a database to record to, `path`: of one that is text, a private database made of it, until the end.

    A process that is killed leaves it behind: it may hold the only copy of a recording.
    """

    def __init__(self, tape: Path) -> None:
        """Make the database; a text need not be there. Raises `TapeDamaged`."""
        self._opened = contextlib.ExitStack()
        self.path = tape
        if tape.suffix == lock.TEXT_SUFFIX:
            with contextlib.ExitStack() as opened:
                directory = Path(tempfile.mkdtemp(prefix="wiretape-"))
                opened.callback(shutil.rmtree, directory, ignore_errors=True)
                self.path = directory / f"{tape.stem}.db"
                if paths.is_file(tape) and tape.stat().st_size:
                    cut.made(tape, self.path)
                self._opened = opened.pop_all()

    def keep(self) -> None:
        """Leave the private database where it is."""
        self._opened.pop_all()

    def close(self) -> None:
        """Remove the private database."""
        self._opened.close()


class Recording:
    """Records to one tape from `start` to `stop`; `path` is the database to read. Used by one event loop."""

    def __init__(
        self, options: RecordingOptions, on_trouble: Callable[[str], None], on_refused: Callable[[Refusal], None]
    ) -> None:
        self._options, self._on_trouble, self._on_refused = options, on_trouble, on_refused
        self._mask = Masker(options.redaction)
        self._tape: RecordedTape
        self._recorder: service.Recorder
        self._pending: dict[str, _PendingExchange] = {}
        self._settled: set[Hashable] = set()
        self._replacing = Replacing()
        self._text: TextFile | None = None
        self._saving: asyncio.Task[None] | None = None
        self._saver = ThreadPoolExecutor(1, "cassette")
        self._is_new = asyncio.Event()
        self._is_stopping = False

    @property
    def path(self) -> Path:
        return self._tape.path

    @property
    def masked_count(self) -> int:
        """The number of secrets that were masked in new recordings."""
        return self._mask.count if self._text is None else self._text.masked_count

    async def start(self, served_at: str) -> None:
        """Open the tape, or make it if it is not there; clients call at `served_at`. Raises `WiretapeError`."""
        options = self._options
        self._tape = await asyncio.to_thread(RecordedTape, options.tape)
        upstreams = options.upstreams or providers.well_known()
        settings = service.Options(
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
            if options.tape.suffix == lock.TEXT_SUFFIX:
                self._text = TextFile(options.tape, self.path, self._recorder.session, options.redaction)
                await asyncio.to_thread(self._text.check)
            await self._recorder.start()
            await self._recorder.tap.ready()  # what is served is read from the tape
        except BaseException:
            self._tape.close()
            raise
        if self._text is not None:
            self._saving = asyncio.create_task(self._save_now_and_then())

    def labelled(
        self, labels: Mapping[str, str], on_recorded: Recorded = lambda _one, _is_kept: None
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
        ended = [one for one in self._pending.values() if one.key == key and one.exchange not in live]
        with contextlib.suppress(TimeoutError):  # answered from finished recordings
            async with asyncio.timeout(SETTLE_SECONDS):
                for one in ended:
                    await one.settled.wait()
        return key in self._settled

    def relay(
        self,
        client: Client,
        request: Request,
        key: Hashable | None,
        to_record: ToRecord,
        labels: Mapping[str, str],
        on_recorded: Recorded,
    ) -> RelayedExchange | Refusal | None:
        """Relay a request, as `Upstreams.relay` does."""
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

    def _finished(self, one: journal.Finished) -> None:
        pending = self._pending.pop(one.id, None)
        if pending is not None:
            pending.settled.set()
            self._settled.add(pending.key)
            is_kept = self._replacing.add(one, pending.to_record.replaces)
            self._is_new.set()
            pending.on_recorded(one, is_kept)

    async def _save_now_and_then(self) -> None:
        while True:
            await self._is_new.wait()
            await self._save()
            await asyncio.sleep(_SAVE_SECONDS)

    async def _save(self) -> bool:
        """Write the text; return True on success."""
        assert self._text is not None
        self._is_new.clear()
        kept, gone = list(self._replacing.kept), set(self._replacing.gone)
        try:  # in one thread: the last write is the newest
            await asyncio.get_running_loop().run_in_executor(self._saver, self._text.save, kept, gone)
        except WiretapeError as error:
            self._on_trouble(str(error))
            return False
        return True

    async def _keep(self) -> None:
        """Keep the new recordings: write them into the text, or delete those they replace."""
        if self._saving is None:
            await asyncio.to_thread(self._erase)
            if self._options.masks_database and self._replacing.kept:
                await asyncio.to_thread(self._mask_database)
            return
        self._saving.cancel()
        await asyncio.wait([self._saving])
        if self._replacing.kept and not await self._save():
            self._tape.keep()
            self._on_trouble(f"the recordings are kept in {self.path}")

    def _erase(self) -> None:
        gone = sorted(self._replacing.gone)
        if not gone:
            return
        try:
            with file.writing(self.path, self._options.purpose, create=False) as connection:
                for _ in retention.erase(connection, gone):
                    pass
        except TapeBusy as error:
            count = counted(len(gone), "older recording")
            self._on_trouble(f"{count} stay on the tape, to be removed by the next --record all: {error}")
        except WiretapeError as error:
            self._on_trouble(f"replaced recordings could not be removed: {error}")

    def _mask_database(self) -> None:
        """Replace the new recordings by masked ones, if they hold secrets, and leave nothing of them in the file."""
        kept = self._replacing.kept
        try:
            with queries.opened(self.path) as connection:
                numbers = list(queries.numbers(connection, exchanges.c.id.in_(kept)))
                lines = list(cut.lines(connection, numbers, self._mask))
            if not self._mask.count:  # other processes that record to the tape are not disturbed
                return
            with (
                private.directory("wiretape-masked-", "recordings without their secrets") as directory,
                file.writing(self.path, self._options.purpose, create=False) as connection,
            ):
                cut.make_passing_tape(lines, copies := directory / "tape.db", "the recordings")
                for _ in retention.erase(connection, kept):
                    pass
                for _ in merge.copy(connection, [copies], merge.plan(connection, [copies])):
                    pass
                retention.vacuum(connection, self.path)
        except WiretapeError as error:
            self._mask.count = 0
            self._on_trouble(f"{self.path} may hold secrets ({error}): pass on what 'wiretape db cut' makes of it")


@dataclass(frozen=True, slots=True)
class LabelledUpstreams:
    """The `Upstreams` of a `Replay`: one recording, with labels of their own."""

    recording: Recording
    labels: Mapping[str, str]
    on_recorded: Recorded

    def _key(self, to_record: ToRecord) -> Hashable | None:
        return None if to_record.key is None else (*sorted(self.labels.items()), to_record.key)

    async def settle(self, to_record: ToRecord) -> bool:
        """Wait until a recording that would answer the request, and has ended, is on the tape; False: there is none."""
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

    def save(self, kept: Collection[str], gone: Collection[str]) -> None:
        """Replace the text as a whole: its lines stay as they are, `kept` exchanges are appended, `gone` ones removed.

        Changes by others since then stay, too. Raises `WiretapeError`, and leaves the text as it was.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self._path.parent):
                before = self._path.read_bytes() if paths.exists(self._path) else b""
                ended = b"" if not before or before.endswith(b"\n") else b"\n"
                lines = [*cut.without(io.BytesIO(before + ended), self._session, gone)]
                new = list(self._lines(kept))
                outfile.replace_private(self._path, b"".join([*lines, *(new[1:] if lines else new)]))
        except (OSError, ValueError) as error:
            raise self._unwritable(str(error)) from error

    def _lines(self, ids: Collection[str]) -> Iterator[bytes]:
        mask = Masker(self._redaction)
        with queries.opened(self._tape) as connection:
            yield from cut.lines(connection, list(queries.numbers(connection, exchanges.c.id.in_(ids))), mask)
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
    """Counts recordings; `kept` are the ids of new ones, `gone` those that are to be removed, new or older."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.gone: set[str] = set()

    def add(self, new: Finished, older: Sequence[ExchangeHead]) -> bool:
        """Add a recording, with the older ones that it may replace; return True if it stays.

        It does not if one of those is better: whole, where this one failed or the client left it, or left, where this
        one failed.
        """
        if any(_rank(one.outcome) > _rank(new.outcome) for one in older):
            self.gone.add(new.id)
            return False
        self.kept.append(new.id)
        self.gone.update(one.id for one in older)
        return True


def _rank(outcome: str) -> int:
    return 0 if outcome in FAILURES else 1 if outcome == "client_closed" else 2

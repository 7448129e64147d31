"""A program: a further process of a recorder, which relays beside the one that started it.

Run by `wiretape.recorder.relay.workers` as `python -m wiretape.recorder.relay.worker`. Like the writer it ignores
SIGINT, SIGTERM and SIGHUP: the recorder ends it by a command, and if the recorder is gone, its exchanges are cut.
"""

import asyncio
import signal
import sys

import msgspec

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay import loop, server, service
from wiretape.recorder.relay.service import Front, WorkerSettings
from wiretape.recorder.relay.sharing import RelayShare, WorkerPlace
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.relay.workers import LINE_BYTES, Command, Observer, WorkerReport
from wiretape.recorder.tape import faults


class _Pipe(asyncio.Protocol):
    """The pipe to the recorder."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the tasks that wait for the end."""
        self.closed.set()


class _Reporter:
    """Sends reports to the recorder, never waiting for it."""

    def __init__(self, transport: asyncio.WriteTransport, pipe: _Pipe) -> None:
        self._transport, self._pipe = transport, pipe
        self._last_share = b""

    async def close(self) -> None:
        """Wait until the recorder has been told everything, or is gone."""
        self._transport.close()
        await self._pipe.closed.wait()

    def send(self, report: WorkerReport) -> None:
        """Send a report, or drop it if too many wait for a recorder that is slow."""
        if self._transport.get_write_buffer_size() < 8 << 20 and not self._transport.is_closing():
            self._transport.write(msgspec.json.encode(report) + b"\n")

    def share(self, share: RelayShare) -> None:
        """Send the share if it has changed since the last time."""
        encoded = msgspec.json.encode(share)
        if encoded != self._last_share:
            self._last_share = encoded
            self.send(WorkerReport(share=share))

    def observer(self) -> Observer:
        return Observer(
            finished=lambda exchange: self.send(WorkerReport(finished=exchange)),
            trouble=lambda message: self.send(WorkerReport(trouble=message)),
            refused=lambda refusal: self.send(WorkerReport(refused=(refusal.status, refusal.message))),
            failed=lambda message: self.send(WorkerReport(fault=message)),
            asked=lambda host, treatment: self.send(WorkerReport(asked=(host, treatment))),
            notice=lambda message: self.send(WorkerReport(notice=message)),
        )


class _RelayWorker:
    """Relays until the recorder tells it to end."""

    def __init__(self, settings: WorkerSettings, reporter: _Reporter) -> None:
        self._reporter = reporter
        observer = reporter.observer()
        options = settings.options
        sock = server.bound(options.host, options.port, joins=True)
        self._front = Front(options, sock, observer)
        self._tap = Tap(
            options.tape,
            settings.session,
            options.purpose,
            on_finished=observer.finished,
            on_trouble=observer.trouble,
            place=WorkerPlace(is_worker=True, on_share=lambda share: reporter.share(self._with_live(share))),
        )

    def _with_live(self, share: RelayShare) -> RelayShare:
        return msgspec.structs.replace(share, live=self._front.live)

    async def run(self, commands: asyncio.StreamReader) -> None:
        await self._tap.start()
        self._front.start(self._tap)
        self._reporter.send(WorkerReport(is_ready=True))
        self._reporter.share(self._tap.share())
        obeying = asyncio.create_task(self._obey(commands))
        await self._front.stopping.wait()
        deadline = SYSTEM.now() + int(service.STOP_SECONDS * 1e9)
        await self._front.drain()
        lost = await self._tap.close(max(service.WRITER_SECONDS, (deadline - SYSTEM.now()) / 1e9))
        obeying.cancel()
        self._reporter.send(WorkerReport(share=self._with_live(self._tap.share()), lost=lost))

    async def _obey(self, commands: asyncio.StreamReader) -> None:
        while line := await commands.readline():
            self._take(msgspec.json.decode(line, type=Command))
        self._take("cut")

    def _take(self, command: Command) -> None:
        match command:
            case "give_up":
                self._tap.give_up()
            case "hurry":
                self._tap.hurry()
            case "drain":
                self._front.stopping.set()
            case "cut":
                self._front.cut()
                self._tap.cut()
                self._front.stopping.set()


async def _main() -> int:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    reporter = _Reporter(*await loop.connect_write_pipe(_Pipe, sys.stdout))
    code = 0
    try:
        settings = msgspec.json.decode(await commands.readline(), type=WorkerSettings, dec_hook=paths.from_json)
        await _RelayWorker(settings, reporter).run(commands)
    except WiretapeError as error:
        reporter.send(WorkerReport(failure=(error.exit_code, str(error))))
        code = error.exit_code
    await reporter.close()
    return code


def main() -> int:
    """Relay until the recorder ends it; return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    faults.report_all()
    return loop.run(_main)


if __name__ == "__main__":
    sys.exit(main())

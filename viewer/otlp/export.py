"""A program: sends the spans and metrics of one recorder to a collector.

Run by `recorder.commands.otlp`. Standard input brings a `Setup`, later the line `leave`, after which the tape is left
alone, and its end is the end of the recording: what is left is sent then, if it does not take too long. It yields the
CPU to the relay and to the writer.
"""

import contextlib
import os
import signal
import socket
import sys
import threading

import msgspec
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import Connection

from recorder.clock import SYSTEM
from recorder.commands.companion import LAST_SECONDS, LEAVE
from recorder.commands.otlp import Setup
from recorder.errors import WiretapeError
from recorder.relay.trust import tls_context
from recorder.sanitize import safe
from viewer.otlp import attributes, metrics, spans
from viewer.otlp.client import Collector
from viewer.otlp.delivery import Delivery
from viewer.tape import queries, session

BATCH = 256
"""So many spans are sent together."""

_NICENESS = 10
_POLL_SECONDS = 0.5
_METRICS_SECONDS = 10.0


class Exporter:
    """Takes the exchanges of a session as they end, counts them, and sends their spans; metrics from time to time."""

    def __init__(self, setup: Setup, delivery: Delivery) -> None:
        self.leaving, self.ending = threading.Event(), threading.Event()
        self._setup, self._delivery = setup, delivery
        self._follower = session.Follower(setup.session)
        self._figures = metrics.figures()
        self._unsent: list[Span] = []
        self._sent_ns = self._deadline_ns = 0

    def follow(self) -> None:
        """Send what has ended, until asked to leave the tape. Raises `WiretapeError`."""
        with queries.opened(self._setup.tape) as connection:
            while not self.leaving.is_set():
                if not self._send_all(connection):
                    break
                self._send_metrics(_METRICS_SECONDS)
                self._wait(_POLL_SECONDS)

    def finish(self) -> None:
        """Send what is left, as far as there is time. Raises `WiretapeError`."""
        self._deadline_ns = SYSTEM.now() + int(LAST_SECONDS * 1e9)
        with queries.opened(self._setup.tape) as connection:
            is_all = self._send_all(connection)
        self._send_metrics(0)
        if not is_all:
            _say("otlp: there was no more time to send all: what is left is on the tape")

    def _send_all(self, connection: Connection) -> bool:
        """Send all that has ended; False if there was no more time for it."""
        while numbers := self._follower.take(connection):
            for one in session.traced(connection, numbers):
                self._figures.add(one.counted)
                made = spans.span(one)
                self._unsent += [] if made is None else [made]
            if not self._send_unsent(least=BATCH):
                return False
        return self._send_unsent()

    def _send_unsent(self, least: int = 1) -> bool:
        """Send spans in batches, until there are fewer than `least`; False if there was no more time for it."""
        while len(self._unsent) >= least:
            if not self._delivery.send_spans(self._unsent[:BATCH], self._wait):
                return False
            del self._unsent[:BATCH]
            self._send_metrics(_METRICS_SECONDS)
        return True

    def _send_metrics(self, after_s: float) -> None:
        """Send metrics if the last ones are so old."""
        if SYSTEM.now() - self._sent_ns >= after_s * 1e9:
            self._delivery.send_metrics(self._figures, self._setup.started_ns)
            self._sent_ns = SYSTEM.now()

    def _wait(self, seconds: float) -> bool:
        """Wait, and return whether there is time for more."""
        if not self._deadline_ns:
            return not self.leaving.wait(seconds)
        left_s = (self._deadline_ns - SYSTEM.now()) / 1e9
        if left_s <= seconds:
            return False
        SYSTEM.sleep(seconds)
        return True


def _listen(exporter: Exporter) -> None:
    """Heed what the recorder says."""
    for line in sys.stdin.buffer:
        if line == LEAVE:
            exporter.leaving.set()
    exporter.leaving.set()
    exporter.ending.set()


def _say(line: str) -> None:
    print(f"wiretape: {safe(line)}", file=sys.stderr, flush=True)


def main() -> int:
    """Send until the recorder has ended; return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(_NICENESS)
    line = sys.stdin.buffer.readline()
    setup = msgspec.json.decode(line, type=Setup, dec_hook=lambda kind, value: kind(value))
    collector = Collector(setup.url, setup.headers, SYSTEM, version=setup.version, verify=tls_context(setup.ca_file))
    resource = attributes.resource(
        os.environ, setup.labels, version=setup.version, host=socket.gethostname(), session=setup.session
    )
    delivery = Delivery(
        collector, resource, attributes.scope(setup.version), SYSTEM, lambda line: _say(f"otlp: {line}")
    )
    exporter = Exporter(setup, delivery)
    threading.Thread(target=_listen, args=(exporter,), daemon=True).start()  # it only waits for lines
    try:
        exporter.follow()
        with contextlib.suppress(OSError):  # the recorder was killed
            sys.stdout.buffer.write(LEAVE)
            sys.stdout.buffer.flush()
        exporter.ending.wait()
        exporter.finish()
    except WiretapeError as error:
        _say(f"otlp: {error}")
        return 1
    finally:
        collector.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

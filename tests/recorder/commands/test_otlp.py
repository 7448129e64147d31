"""`wiretape record --otlp`: a collector gets each generation once, in its caller's trace, also when it was down."""

import gzip
import os
import signal
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.relay import DONE, chunk, fetch, finish, on_loop, post, recording, select, until
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.viewer.wings.otlp.address import HEADERS

CHAT = "/v1/chat/completions"
STREAM = [(0.01, chunk("a")), (0.03, chunk("b", finish="stop", usage={"prompt_tokens": 5})), (0.0, DONE)]
PARENT = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
SECRET = "sk-secret-of-the-collector"


class Receiver:
    """A collector that is down for its first answers."""

    def __init__(self, failures: int) -> None:
        self.spans, self.metrics, self.keys = list[bytes](), list[bytes](), set[bytes]()
        self.parents: set[str] = set()
        self._failures = failures

    def choose(self, request: ReceivedRequest) -> Scene:
        self.keys |= {value for name, value in request.headers if name.lower() == b"x-key"}
        if request.target == b"/v1/metrics":
            self.metrics.append(gzip.decompress(request.body))
        elif self._failures:
            self._failures -= 1
            return answer([], status=503, headers=[("retry-after", "0")])
        else:
            self._take(gzip.decompress(request.body))
        return answer([], content_type="application/x-protobuf")

    def _take(self, message: bytes) -> None:
        for span in ExportTraceServiceRequest.FromString(message).resource_spans[0].scope_spans[0].spans:
            self.spans.append(span.span_id.hex())
            self.parents.add(f"{span.trace_id.hex()}-{span.parent_span_id.hex()}")


def children(pid: int) -> list[bytes]:
    """Return the command lines of the children of a process."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/cmdline").read_bytes() for child in started]


@on_loop
async def test_each_generation_is_sent_once_in_its_callers_trace(tmp_path: Path) -> None:
    tape, receiver = tmp_path / "tape.db", Receiver(failures=2)
    labelled = ("--label", "api_key=sk-1234567890abcdefghijklmnop")
    async with (
        ScriptedUpstream(lambda _: answer(STREAM)) as upstream,
        ScriptedUpstream(receiver.choose) as collector,
        recording(tape, upstream.url, "--otlp", collector.url, *labelled, env={HEADERS: f"x-key={SECRET}"}) as (
            process,
            base,
        ),
    ):
        for _ in range(3):
            await fetch(base, post(CHAT, b'{"model":"m","stream":true}', PARENT))
        await until(lambda: len(receiver.spans) == 3)
        assert not [line for line in children(process.pid) if b"sk-1" in line]
        await fetch(base, post(CHAT, b'{"model":"m","stream":true}', PARENT))
        code, out, err = await finish(process, signal.SIGINT)
    assert code == 0
    assert sorted(receiver.spans) == sorted(row["id"] for row in select(tape, "SELECT id FROM exchanges"))
    assert receiver.parents == {"0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"}
    assert receiver.keys == {SECRET.encode()}
    assert "shipping: spans are not taken (HTTP 503); trying again\n" in err
    assert SECRET not in out + err
    final_metrics = ExportMetricsServiceRequest.FromString(receiver.metrics[-1]).resource_metrics[0].scope_metrics[0]
    points = {metric.name: metric.exponential_histogram.data_points for metric in final_metrics.metrics}
    (first_chunk,) = points["gen_ai.client.operation.time_to_first_chunk"]
    count, first_ns = select(tape, "SELECT count(ttfc_ns), sum(ttfc_ns) FROM measures")[0]
    assert (first_chunk.count, round(first_chunk.sum * 1e9)) == (count, first_ns) == (4, first_ns)


def shipping_process(pid: int) -> int:
    """Return the process that ships a recorder's exchanges."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = [it for it in started if b"--beside" in Path(f"/proc/{it}/cmdline").read_bytes()]
    return int(found)


def totals(messages: list[bytes], name: str) -> tuple[int, float]:
    """Return the count and the sum of a histogram over all series, each with its last point."""
    last_points: dict[bytes, tuple[int, float]] = {}
    for message in messages:
        (of_resource,) = ExportMetricsServiceRequest.FromString(message).resource_metrics
        for metric in of_resource.scope_metrics[0].metrics:
            for point in metric.exponential_histogram.data_points if metric.name == name else ():
                labels = b"".join(pair.SerializeToString() for pair in point.attributes)
                key = of_resource.resource.SerializeToString() + b"%d" % point.start_time_unix_nano + labels
                last_points[key] = point.count, point.sum
    return sum(count for count, _ in last_points.values()), sum(total for _, total in last_points.values())


@on_loop
async def test_a_killed_sender_neither_loses_nor_repeats_spans(
    tmp_path: Path,
) -> None:
    tape, receiver = tmp_path / "tape.db", Receiver(failures=0)
    async with (
        ScriptedUpstream(lambda _: answer(STREAM)) as upstream,
        ScriptedUpstream(receiver.choose) as collector,
        recording(tape, upstream.url, "--otlp", collector.url) as (process, base),
    ):
        for wave in (1, 2):
            for number in range(5):
                await fetch(base, post(CHAT, b'{"model":"m%d","stream":true}' % number))
            await until(lambda wave=wave: len(set(receiver.spans)) == 5 * wave)
            os.kill(shipping_process(process.pid), signal.SIGKILL)
        await fetch(base, post(CHAT, b'{"model":"m","stream":true}'))
        await until(lambda: len(set(receiver.spans)) == 11)
        code, _, _ = await finish(process, signal.SIGINT)
    assert code == 0
    assert set(receiver.spans) == {row["id"] for row in select(tape, "SELECT id FROM exchanges")}
    count, first_ns, duration_ns, tokens = select(
        tape, "SELECT count(ttfc_ns), sum(ttfc_ns), sum(duration_ns), sum(input_tokens) FROM measures"
    )[0]
    assert count == 11
    first_totals = totals(receiver.metrics, "gen_ai.client.operation.time_to_first_chunk")
    duration = totals(receiver.metrics, "gen_ai.client.operation.duration")
    assert [(n, round(total * 1e9)) for n, total in (first_totals, duration)] == [(11, first_ns), (11, duration_ns)]
    assert totals(receiver.metrics, "gen_ai.client.token.usage") == (11, tokens)


@pytest.mark.nightly
@on_loop
async def test_an_absent_collector_delays_nothing_and_is_reported(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: answer(STREAM)) as upstream,
        recording(tmp_path / "t.db", upstream.url, "--otlp", "http://127.0.0.1:1") as (process, base),
    ):
        assert (await fetch(base, post(CHAT))).status == 200
        code, _, err = await finish(process, signal.SIGINT)
    assert code == 0
    assert "the rest stays on the tape" in err
    assert "0 exchanges shipped to otlp at 127.0.0.1:1, 1 waiting" in err

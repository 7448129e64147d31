"""A span has the facts of its exchange on the tape, and no others."""

from dataclasses import replace

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.exchanges import FACTS, MS, ONE, body
from wiretape.viewer.stats.conventions import RELEASED
from wiretape.viewer.stats.dashboard import EVENTS, OWN_ATTRIBUTES, Traced
from wiretape.viewer.stats.parameters import RequestParameters
from wiretape.viewer.stats.tools.request import Judged
from wiretape.viewer.wings.otlp import attributes, spans
from wiretape.viewer.wings.otlp.spans import span_context

T0 = 1_700_000_000_000_000_000
EXCHANGE = Traced(
    id="2643dcc5d112e65c", counted=replace(ONE, cache_read_input_tokens=3), started_ns=T0,
    labels={"run": "a7"}, clock="kernel", response_id="r1",
    request_headers=[["traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]],
    finish_reasons=["stop"], conversation="c1", ttft_ns=10 * MS, max_gap_ns=20 * MS, pause=("tools", 2000 * MS),
    stalls=(),
)  # fmt: skip
HOSTILE = "\x1b[2J\ud800\u202e" + "x" * 500


def received(exchange: Traced, **environment: str) -> Span:
    """Return the span as a receiver decodes it."""
    origin = attributes.origin(environment, {}, version="1", host="h", instance="s")
    span = spans.span(exchange, origin.conventions)
    assert span is not None
    sent = spans.request([span], origin).SerializeToString()
    (of_resource,) = ExportTraceServiceRequest.FromString(sent).resource_spans
    return of_resource.scope_spans[0].spans[0]


def values(pairs):
    """Return attributes as plain values."""
    plain = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        plain[pair.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return plain


def of(**more):
    return replace(EXCHANGE, counted=replace(ONE, **more))


def test_cache_written_tokens_follow_the_users_conventions():
    exchange = of(cache_write_input_tokens=2)
    released, latest = (
        received(exchange),
        received(exchange, OTEL_SEMCONV_STABILITY_OPT_IN="gen_ai_latest_experimental"),
    )
    assert values(released.attributes)["gen_ai.usage.cache_creation.input_tokens"] == 2
    renamed = {**values(released.attributes), "gen_ai.usage.cache_write.input_tokens": 2}
    del renamed["gen_ai.usage.cache_creation.input_tokens"]
    assert values(latest.attributes) == renamed


def test_a_stream_is_a_conventional_client_span():
    span = received(EXCHANGE)
    assert (span.name, span.kind, span.status.code) == ("chat m", Span.SPAN_KIND_CLIENT, Status.STATUS_CODE_UNSET)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (T0, T0 + 500 * MS)
    place = span_context(EXCHANGE.id, EXCHANGE.request_headers)
    assert (span.trace_id, span.span_id, span.parent_span_id) == (place.trace, place.span, place.parent)
    assert values(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m-2",
        "gen_ai.response.id": "r1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.01,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.conversation.id": "c1",
        "server.address": "api.example.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "wiretape.api": "openai.chat",
        "wiretape.upstream": "main",
        "wiretape.exchange.id": EXCHANGE.id,
        "wiretape.outcome": "complete",
        "wiretape.time_to_first_token": 0.01,
        "wiretape.longest_gap": 0.02,
        "wiretape.stall.count": 0,
        "wiretape.before.part": "tools",
        "wiretape.before.duration": 2.0,
        "wiretape.flags": ["stall"],
        "wiretape.clock": "kernel",
        "wiretape.label.run": "a7",
    }
    assert [(event.name, event.time_unix_nano) for event in span.events] == [("wiretape.first_chunk", T0 + 10 * MS)]


def test_a_span_has_its_known_protocol_version():
    versions = {"http/1.1": "1.1", "h2": "2", None: None, HOSTILE: None}
    for protocol, version in versions.items():
        fields = values(received(replace(EXCHANGE, protocol=protocol)).attributes)
        assert fields.get("network.protocol.version") == version


def test_a_span_has_the_parameters_of_its_request():
    parameters = RequestParameters(
        max_tokens=9, temperature=0.0, top_p=0.75, stop_sequences=(HOSTILE,), output_type="json"
    )
    fields = values(received(replace(EXCHANGE, parameters=parameters)).attributes)
    names = ("max_tokens", "temperature", "top_p")
    assert [fields[f"gen_ai.request.{name}"] for name in names] == [9, 0.0, 0.75]
    assert fields["gen_ai.output.type"] == "json"
    (stop,) = fields["gen_ai.request.stop_sequences"]
    assert len(stop) < 130
    assert "\x1b" not in stop


def test_every_attribute_and_event_of_our_own_is_explained():
    span = received(replace(of(judged=Judged("error_event", "x", 0)), outcome_detail="mid_stream"))
    own_keys = {key for key in values(span.attributes) if key.startswith("wiretape.")}
    assert own_keys == {name.replace("KEY", "run") for name in OWN_ATTRIBUTES}
    assert {event.name for event in span.events} <= set(EVENTS)


def test_what_is_unknown_has_no_attribute():
    unknown = replace(ONE, operation="chat", api=None, upstream="", upstream_name=None, request_model=None,
                      response_model=None, judged=Judged("interrupted", None, None), body=body(pieces=()), flags=(),
                      exchange=replace(FACTS, status=None, end_ns=None, ended_by="died"),
                      input_tokens=None)  # fmt: skip
    span = received(Traced(id="x", counted=unknown, started_ns=T0, labels={}))
    assert span.name == "chat"
    assert span.end_time_unix_nano == T0
    assert set(values(span.attributes)) == {
        "gen_ai.operation.name", "gen_ai.request.stream", "error.type", "wiretape.exchange.id", "wiretape.outcome"
    }  # fmt: skip


def test_failures_are_errors_and_clients_leaving_is_not():
    failed = received(replace(of(judged=Judged("error_event", "overloaded", 300 * MS)), outcome_detail="mid_stream"))
    assert (failed.status.code, failed.status.message) == (Status.STATUS_CODE_ERROR, "error_event (mid_stream)")
    assert values(failed.attributes)["error.type"] == "overloaded"
    abandoned = received(of(judged=Judged("client_closed", None, 300 * MS)))
    assert abandoned.status.code == Status.STATUS_CODE_UNSET
    assert "error.type" not in values(abandoned.attributes)
    assert values(abandoned.attributes)["wiretape.outcome"] == "client_closed"


def test_stalls_are_events_up_to_a_counted_limit():
    many = spans.MOST_STALLS + 5
    span = received(replace(EXCHANGE, stalls=[(3000 * MS * at, 3000 * MS * (at + 1)) for at in range(many)]))
    events = [(event.name, event.time_unix_nano - T0, values(event.attributes)) for event in span.events][1:]
    assert events[:2] == [("wiretape.stall", at * MS, {"wiretape.stall.duration": 3.0}) for at in (0, 3000)]
    assert (len(events), span.dropped_events_count) == (spans.MOST_STALLS, 5)
    assert values(span.attributes)["wiretape.stall.count"] == many


def test_only_sampled_generations_with_times_become_spans():
    unsampled = [["traceparent", EXCHANGE.request_headers[0][1][:-1] + "0"]]
    for exchange in (
        of(operation="models"),
        replace(EXCHANGE, request_headers=unsampled),
        replace(EXCHANGE, started_ns=None),
    ):
        assert spans.span(exchange, RELEASED) is None


def test_foreign_texts_are_bounded_without_controls_and_times_fit():
    evil = of(request_model=HOSTILE, response_model=HOSTILE, upstream=f"http://{HOSTILE}", flags=[HOSTILE],
              judged=Judged("error_event", HOSTILE, -(1 << 62)))  # fmt: skip
    evil = replace(evil, id=HOSTILE, response_id=HOSTILE, finish_reasons=[HOSTILE], conversation=HOSTILE,
                   started_ns=-5, clock=HOSTILE, outcome_detail=HOSTILE,
                   labels={HOSTILE + str(n): HOSTILE for n in range(99)})  # fmt: skip
    span = received(evil)
    texts = [span.name, span.status.message, *map(str, values(span.attributes).items())]
    assert not any(sign in text for text in texts for sign in ("\x1b", "\ud800", "\u202e"))
    assert max(map(len, texts)) < 400
    assert len(span.attributes) < 70


def test_a_recorder_is_a_resource_named_by_environment():
    environment = {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "a=b%20c, service.name=other,=x,broken"}
    fields = attributes.resource(environment, {"run": "a7"}, version="1", host="h", instance="s")
    assert values(fields.attributes) == {
        "service.name": "mine", "service.version": "1", "service.instance.id": "s", "host.name": "h",
        "wiretape.label.run": "a7", "a": "b c",
    }  # fmt: skip

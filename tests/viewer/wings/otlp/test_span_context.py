"""The place of a span is that which the request names, and the same at every call."""

from tests.support.cases import each_case
from wiretape.viewer.wings.otlp.spans import span_context

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ID = "2643dcc5d112e65c"


def test_a_span_has_its_exchanges_id_and_callers_trace():
    headers = [
        ["Accept", "*/*"],
        ["TraceParent", f" 00-{TRACE}-{CALLER}-01 "],
        ["tracestate", "a=1"],
        ["tracestate", "b=2"],
    ]
    context = span_context(ID, headers)
    assert (context.trace.hex(), context.parent.hex(), context.span.hex()) == (TRACE, CALLER, ID)
    assert (context.state, context.flags, context.is_sampled) == ("a=1,b=2", 0x301, True)
    assert span_context(ID, headers) == context


def test_unsampled_traces_are_reported_and_later_versions_read():
    assert not span_context(ID, [["traceparent", f"00-{TRACE}-{CALLER}-00"]]).is_sampled
    assert span_context(ID, [["traceparent", f"01-{TRACE}-{CALLER}-03-more"]]).trace.hex() == TRACE


@each_case(
    "values",
    [
        [],
        [""],
        [f"00-{TRACE}-{CALLER}"],
        [f"00-{TRACE}-{CALLER}-01-more"],
        [f"ff-{TRACE}-{CALLER}-01"],
        [f"00-{TRACE.upper()}-{CALLER}-01"],
        [f"00-{'0' * 32}-{CALLER}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE}-{CALLER}-01\n"],
        [f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-01"],
        ["\x1b[2J\ud800"],
    ],
    ids=repr,
)
def test_without_a_valid_traceparent_a_trace_begins(values):
    context = span_context(ID, [*(["traceparent", value] for value in values), ["tracestate", "a=1"]])
    assert (len(context.trace), context.parent, context.state, context.is_sampled) == (16, b"", "", True)
    assert context.trace.hex() != TRACE
    assert context.trace == span_context(ID, []).trace
    assert context.trace != span_context(ID[::-1], []).trace


def test_a_foreign_id_gives_a_valid_span_id():
    assert len({span_context(text, []).span for text in ("", "0" * 16, "\ud800", "x" * 99)} - {bytes(8)}) == 4

"""Pure: the page of one exchange: the content of `show` and `stats`, as data for the script of the page.

Verdicts, figures and percentiles are made by the same functions as there; the script only draws them. Columns are
differences (`document.deltas`), timestamps ns since T0, and unknown values are null. Texts and bodies are left out by
default, and the page says so.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import BinaryIO, Final

from wiretape.recorder import __version__
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.metrics import percentile
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange import events, facts, markers, pages, report, states
from wiretape.viewer.exchange.opened import FullExchange, Known, OpenedExchange
from wiretape.viewer.exchange.transcript import KINDS, OUTPUT, UNKNOWN, Track, Transcript
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import GAP_PERCENTILES
from wiretape.viewer.report import tools as tool_tables
from wiretape.viewer.stats.tools.summary import Observed, measure_observed, report_of
from wiretape.viewer.stats.tools.tools import TOOLS
from wiretape.viewer.text import curl, formatting
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict
from wiretape.viewer.wings.page import document
from wiretape.viewer.wings.page.document import deltas, without_credentials

_MARK: Final = "REDACTED"
_NO_EVENTS: Final = frozenset({"comment", "ping", "pong", "close", "sent"})
"""The kinds that are no event of upstream's, or only keep the connection open."""
_TOOL_FIELDS: Final = ("metric", "unit", "n", "value", "mean", "p50", "p99", "max")


@dataclass(frozen=True, slots=True)
class Shared:
    """The recorded content in a page: the texts of the answer, and the bodies, which hold them, too."""

    text: bool = False
    bodies: bool = False


@dataclass(frozen=True, slots=True)
class StreamPage:
    """All that the page of an exchange is made of; `recording` is whether its recorder still runs.

    `is_masked`: secrets in its texts and bodies are replaced.
    """

    detail: Known
    full: FullExchange
    opened: OpenedExchange
    observed: Observed
    recording: bool = True
    is_masked: bool = False


def write(out: BinaryIO, page: StreamPage, shared: Shared) -> int:
    parts: dict[str, bytes] = {}
    if shared.bodies:
        parts = {"body": page.opened.transcript.data, "asked": page.detail.request.plain or b""}
    return document.write(out, "stream", data(page, shared), parts)


def data(page: StreamPage, shared: Shared) -> JsonObject:
    """Return the page's data, as one JSON value."""
    row, tools = page.detail.row, list[JsonObject]()
    for name in TOOLS:
        figures = report_of(name, [measure_observed(name, page.observed)])
        remarks = [remark.plain for remark in tool_tables.remarks(figures)]
        table = [[cells[field] for field in _TOOL_FIELDS] for cells in tool_tables.rows(figures)]
        tools.append({"tool": name, "remarks": remarks, "rows": table})
    return played(page, shared) | {
        "version": __version__,
        "title": " ".join(filter(None, (row.id[:8], row.model))),
        "request": f"{row.method} {row.upstream}{row.path}",
        "none": None if page.opened.verdicts else wording.nothing(page.opened.limits),
        "flags": list(facts.flags(row, report.JUDGED)),
        "facts": [
            [fact.label, list(fact.parts)]
            for fact in facts.all_facts(row, page.opened.verdicts)
            if fact.label != facts.ATTRIBUTES or shared.text or shared.bodies
        ],
        "slow": [
            [
                name,
                *([None] * 4 if spread is None else [spread.n, spread.p50_ns, spread.p99_ns, spread.max_ns]),
                meaning,
            ]
            for name, spread, meaning in (facts.who_was_slow(page.opened.slowness) if page.opened.slowness else ())
        ],
        "headers": {
            "request": page.detail.request.headers,
            "response": page.detail.exchange.headers.response,
            "trailers": page.detail.exchange.headers.trailers,
        },
        "asked": _request(page, shared),
        "tools": tools,
        "banner": list(_banner(page, shared)),
    }


def played(page: StreamPage, shared: Shared) -> JsonObject:
    """Return the player's data on an exchange, and the exchange's identity."""
    row, opened = page.detail.row, page.opened
    state = states.state(row, recording=page.recording)
    outputs = Attribution(page.full.exchange, page.full.reads, page.full.decoded).outputs
    reported = ((timed.at_ns, registry.tokens(timed.chunk).output) for timed in page.full.decoded.chunks())
    verdicts = list(opened.verdicts)
    if not (shared.text or shared.bodies):  # these two quote the answer
        verdicts = [replace(verdict, before=None, after=None) for verdict in verdicts]
    return {
        "id": row.id,
        "model": row.model,
        "state": {"sign": state.sign, "tone": state.tone, "text": formatting.line(row.ending)},
        "status": row.status,
        "reasons": list(_reasons(page)),
        "brief": wording.brief(verdicts),
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "figures": {name: rows.value(row, name) for name in _FIGURES} | _gaps(page),
        "end": opened.end_ns,
        "marks": _marks(page),
        "bars": [asdict(bar) for bar in _bars(page)],
        "reads": _reads(page),
        "events": _events(page, shared),
        # The gaps between output chunks are those of `icl`.
        "outputs": {
            "at": deltas(output.at_ns for output in outputs),
            "event": deltas(output.item for output in outputs),
        },
        "tokens": [[at, output] for at, output in reported if at is not None and output is not None],
        "texts": list(_texts(opened.transcript, shared)),
        "silence": facts.no_text(row, "see its reads"),
    }


_FIGURES: Final = (
    "ttft_ms", "ttfb_ms", "max_gap_ms", "max_silence_ms", "latency_ms", "duration_ms",
    "input_tokens", "output_tokens", "tps_user", "reads", "events", "output_chunks", "bytes",
)  # fmt: skip


def _gaps(page: StreamPage) -> dict[str, float | None]:
    """Return the percentiles of the gaps between reads with output, in ms."""
    attribution = Attribution(page.full.exchange, page.full.reads, page.full.decoded)
    steps = enumerate(pairwise(output.at_ns for output in attribution.outputs if output.at_ns is not None), 1)
    gaps = sorted(
        later - earlier for number, (earlier, later) in steps if later > earlier and number not in attribution.later
    )
    return {
        name: percentile(gaps, GAP_PERCENTILES[name]) / 1e6 if gaps else None for name in ("gap_p50_ms", "gap_p99_ms")
    }


def _reasons(page: StreamPage) -> Iterator[str]:
    """Yield the reason for its end, and the defects of its recording."""
    reason = facts.reason(page.detail.row, facts.silent_end(page.detail.row, page.opened.verdicts))
    trouble = pages.trouble(page.detail, page.opened, not page.recording)
    wrong = "".join(text for text, _ in trouble or ()).strip()
    if page.recording:
        yield reason
    if wrong and wrong != reason:
        yield wrong


def _verdict(verdict: Verdict) -> JsonObject:
    sentence, evidence = wording.sentences(verdict)
    names = ("kind", "form", "who", "from_ns", "lasted_ns", "before", "after", "read", "event")
    return {name: getattr(verdict, name) for name in names} | {"sentence": sentence, "evidence": evidence}


def _bars(page: StreamPage) -> Iterator[pages.TimeBar]:
    """Yield the phases; the script has the stalls from the verdicts. A wait for a head that never came is one, too."""
    last_read_ns = page.opened.reads_at[-1] if len(page.opened.reads_at) else None
    recorded = page.opened.facts
    yield from pages.bars(recorded, page.detail.row, page.opened.transcript, (), last_read_ns)
    if recorded.headers_ns is None and page.opened.end_ns:
        name = "connecting" if recorded.connected_ns is None else "wait for headers"
        yield pages.TimeBar(name, recorded.connected_ns or 0, page.opened.end_ns, "wait", "none came")


def _marks(page: StreamPage) -> list[tuple[str, int]]:
    """Return the named timestamps of an exchange, in their order."""
    timing, transcript = page.opened.facts, page.opened.transcript
    end = "end" if timing.ended_by == "end" else f"end: {timing.ended_by}"
    event_numbers = (event for event in range(len(transcript)) if transcript.kind(event) not in _NO_EVENTS)
    first_ns = next((transcript.at[event] for event in event_numbers if transcript.timed[event]), None)
    marks = [("sent", timing.sent_ns), ("head", timing.headers_ns), ("first event", first_ns), (end, timing.end_ns)]
    marks += [(markers.SIGNS[marker.sign], marker.at_ns) for marker in page.opened.markers if marker.sign != "S"]
    return sorted(((name, at_ns) for name, at_ns in marks if at_ns is not None), key=lambda mark: mark[1])


def _reads(page: StreamPage) -> JsonObject:
    """Return the reads in columns; `skipped` are the bytes that are missing from the tape before each."""
    reads = page.full.reads
    ends = [start + size for start, size in zip(reads.start, reads.size, strict=True)]
    return {
        "seq": deltas(reads.seq),
        "at": deltas(reads.at_ns),
        "relayed": [
            None if relayed is None else relayed - at for at, relayed in zip(reads.at_ns, reads.relayed_ns, strict=True)
        ],
        "size": list(reads.size),
        "skipped": [start - end for start, end in zip(reads.start, [0, *ends], strict=False)],
        "borders": deltas(page.opened.borders),
        "owners": deltas(page.opened.owners),
    }


def _events(page: StreamPage, shared: Shared) -> JsonObject:
    """Return the events in columns; `types` has the names of the types, `type` the place of each event's there."""
    transcript = page.opened.transcript
    types: dict[str, int] = {}
    type = [types.setdefault(item.type, len(types)) for item in page.full.decoded.items()]
    return {
        "kinds": KINDS,
        "types": list(types),
        "kind": list(transcript.kinds),
        "type": type,
        "at": deltas(at if timed else None for at, timed in zip(transcript.at, transcript.timed, strict=True)),
        "read": deltas(None if read == UNKNOWN else read for read in transcript.reads),
        "start": deltas(transcript.starts),
        "size": [end - start for start, end in zip(transcript.starts, transcript.ends, strict=True)],
        "sent": sorted(transcript.sent),
        "told": _descriptions(transcript, shared),
    }


def _descriptions(transcript: Transcript, shared: Shared) -> dict[int, str]:
    """Return the descriptions of events without output: their summaries, or, without texts, only their meanings."""
    silent_events = [event for event in range(len(transcript)) if transcript.kind(event) not in OUTPUT]
    if shared.text or shared.bodies:
        return {event: text for event in silent_events if (text := events.summary(transcript, event))}
    meanings = ((event, without_credentials(events.meaning(transcript, event))) for event in silent_events)
    return {event: meaning for event, meaning in meanings if meaning}


def _texts(transcript: Transcript, shared: Shared) -> Iterator[JsonObject]:
    """Yield the texts by choice, in the order in which they began; without texts only how long their pieces are."""
    for voice in transcript.voices:
        tracks = [("reasoning", voice.reasoning), ("content", voice.content), ("refusal", voice.refusal)]
        for call in voice.calls:
            tracks += [("call", call.name), ("arguments", call.arguments)]
        for kind, track in sorted((pair for pair in tracks if len(pair[1])), key=lambda pair: pair[1].number):
            yield {"kind": kind, "choice": voice.index, **_pieces(track, shared)}


def _pieces(track: Track, shared: Shared) -> JsonObject:
    spans = [(delta.start, delta.end) for delta in track.deltas()]
    if shared.text or shared.bodies:
        return {"events": deltas(track.events), "pieces": [track.text[start:end] for start, end in spans]}
    return {"events": deltas(track.events), "sizes": [end - start for start, end in spans]}


def _request(page: StreamPage, shared: Shared) -> JsonObject:
    request = page.detail.request
    command = curl.of(request if shared.bodies else replace(request, body=None, size=0))
    left_out = not shared.bodies and request.known_size
    note = f": 'the body of {counted(request.known_size, 'byte')} is not in this page'\n" if left_out else ""
    return {
        "method": request.exchange.method,
        "url": f"{request.exchange.upstream}{request.exchange.path}",
        "size": request.known_size,
        "stored": len(request.body or b""),
        "sha256": request.sha256,
        "curl": note + command,
    }


def _banner(page: StreamPage, shared: Shared) -> Iterator[tuple[str, str]]:
    request, response = (
        page.detail.request,
        (*page.detail.exchange.headers.response, *page.detail.exchange.headers.trailers),
    )
    left_out = [] if shared.text or shared.bodies else ["the texts of the answer (--with-text)"]
    left_out += [] if shared.bodies else ["the bytes of the request and of the response (--with-bodies)"]
    if left_out:
        yield "Left out:", f"{' and '.join(left_out)}."
    redacted = list(iter(dict.fromkeys(name for name, value in (*request.headers, *response) if _MARK in value)))
    url = ["the URL"] if _MARK in request.exchange.upstream + request.exchange.path else []
    names = ", ".join(formatting.line(name) for name in (*redacted, *url))
    yield "Redacted:", f"{names}." if names else "nothing: no credential was found in its headers and its URL."
    included = ["headers, labels, URL, error messages, finish reasons and types of events, credentials redacted"]
    included += [] if shared.text or shared.bodies else ["how long the texts are"]
    rule = f"in which {document.MASKED if page.is_masked else 'nothing is redacted'}"
    included += [f"texts of the answer, {rule}"] if shared.text or shared.bodies else []
    included += [f"bodies, {rule}"] if shared.bodies else []
    yield "Included:", f"{'; '.join(included)}."

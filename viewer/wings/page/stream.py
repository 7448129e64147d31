"""Pure: the page of one exchange: the content of `show` and `stats`, as data for the script of the page.

Verdicts, figures and percentiles are made by the same functions as there; the script only draws them. Columns are
differences (`document.deltas`), timestamps ns since T0, and unknown values are null. Texts and bodies are left out by
default, and the page says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import BinaryIO, Final

from wiretape.recorder import __version__
from wiretape.recorder.decode.attribution import Attribution, Spread
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.metrics import percentile
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange import events, facts, markers, pages, report, states
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.transcript import KINDS, OUTPUT, UNKNOWN, Track, Transcript
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import GAP_PERCENTILES
from wiretape.viewer.report import tools as tool_tables
from wiretape.viewer.source.tape.exchange import FullExchange
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

    known: Known
    full: FullExchange
    opened: OpenedExchange
    observed: Observed
    recording: bool = True
    is_masked: bool = False


def write(out: BinaryIO, one: StreamPage, shared: Shared) -> int:
    """Write the page of an exchange and return its size in bytes."""
    parts: dict[str, bytes] = {}
    if shared.bodies:
        parts = {"body": one.opened.transcript.data, "asked": one.known.request.plain or b""}
    return document.write(out, "stream", data(one, shared), parts)


def data(one: StreamPage, shared: Shared) -> JsonObject:
    """Return the page's data, as one JSON value."""
    row = one.known.row
    return played(one, shared) | {
        "version": __version__,
        "title": " ".join(filter(None, (row.id[:8], row.model))),
        "request": f"{row.method} {row.upstream}{row.path}",
        "none": None if one.opened.verdicts else wording.nothing(one.opened.limits),
        "flags": list(facts.flags(row, report.JUDGED)),
        "facts": [
            [fact.label, list(fact.parts)]
            for fact in facts.told(row, one.opened.verdicts)
            if fact.label != facts.ATTRIBUTES or shared.text or shared.bodies
        ],
        "slow": [_side(*side) for side in facts.who_was_slow(one.opened.slowness)] if one.opened.slowness else [],
        "headers": {
            "request": one.known.request.headers,
            "response": one.known.exchange.headers.response,
            "trailers": one.known.exchange.headers.trailers,
        },
        "asked": _request(one, shared),
        "tools": [_tool(name, one.observed) for name in TOOLS],
        "banner": list(_banner(one, shared)),
    }


def played(one: StreamPage, shared: Shared) -> JsonObject:
    """Return the player's data on an exchange, and the exchange's identity."""
    row, opened = one.known.row, one.opened
    state = states.state(row, recording=one.recording)
    verdicts = [_shown(verdict, shared) for verdict in opened.verdicts]
    return {
        "id": row.id,
        "model": row.model,
        "state": {"sign": state.sign, "tone": state.tone, "text": formatting.line(row.ending)},
        "status": row.status,
        "reasons": list(_reasons(one)),
        "brief": wording.brief(verdicts),
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "figures": {name: rows.value(row, name) for name in _FIGURES} | _gaps(one),
        "end": opened.end_ns,
        "marks": _marks(one),
        "bars": [asdict(bar) for bar in _bars(one)],
        "reads": _reads(one),
        "events": _events(one, shared),
        "outputs": _outputs(one),
        "tokens": _tokens(one),
        "texts": list(_texts(opened.transcript, shared)),
        "silence": facts.no_text(row, "see its reads"),
    }


_FIGURES: Final = (
    "ttft_ms", "ttfb_ms", "max_gap_ms", "max_silence_ms", "latency_ms", "duration_ms",
    "input_tokens", "output_tokens", "tps_user", "reads", "events", "output_chunks", "bytes",
)  # fmt: skip


def _gaps(one: StreamPage) -> dict[str, float | None]:
    """Return the percentiles of the gaps between reads with output, in ms."""
    found = Attribution(one.full.exchange, one.full.reads, one.full.decoded)
    steps = enumerate(pairwise(output.at_ns for output in found.outputs if output.at_ns is not None), 1)
    gaps = sorted(after - before for nth, (before, after) in steps if after > before and nth not in found.later)
    return {
        name: percentile(gaps, GAP_PERCENTILES[name]) / 1e6 if gaps else None for name in ("gap_p50_ms", "gap_p99_ms")
    }


def _reasons(one: StreamPage) -> Iterator[str]:
    """Yield the reason for its end, and the defects of its recording."""
    reason = facts.reason(one.known.row, facts.silent_end(one.known.row, one.opened.verdicts))
    trouble = pages.trouble(one.known, one.opened, not one.recording)
    wrong = "".join(text for text, _ in trouble or ()).strip()
    if one.recording:
        yield reason
    if wrong and wrong != reason:
        yield wrong


def _shown(verdict: Verdict, shared: Shared) -> Verdict:
    return verdict if shared.text or shared.bodies else replace(verdict, before=None, after=None)


def _verdict(verdict: Verdict) -> JsonObject:
    sentence, evidence = wording.sentences(verdict)
    names = ("kind", "form", "who", "from_ns", "lasted_ns", "before", "after", "read", "event")
    return {name: getattr(verdict, name) for name in names} | {"sentence": sentence, "evidence": evidence}


def _side(name: str, spread: Spread | None, meaning: str) -> list[object]:
    figures = [None] * 4 if spread is None else [spread.n, spread.p50_ns, spread.p99_ns, spread.max_ns]
    return [name, *figures, meaning]


def _bars(one: StreamPage) -> Iterator[pages.TimeBar]:
    """Yield the phases; the script has the stalls from the verdicts. A wait for a head that never came is one, too."""
    last = one.opened.reads_at[-1] if len(one.opened.reads_at) else None
    found = one.opened.facts
    yield from pages.bars(found, one.known.row, one.opened.transcript, (), last)
    if found.headers_ns is None and one.opened.end_ns:
        name = "connecting" if found.connected_ns is None else "wait for headers"
        yield pages.TimeBar(name, found.connected_ns or 0, one.opened.end_ns, "wait", "none came")


def _marks(one: StreamPage) -> list[tuple[str, int]]:
    """Return the named timestamps of an exchange, in their order."""
    found, transcript = one.opened.facts, one.opened.transcript
    end = "end" if found.ended_by == "end" else f"end: {found.ended_by}"
    first = (event for event in range(len(transcript)) if transcript.kind(event) not in _NO_EVENTS)
    first_ns = next((transcript.at[event] for event in first if transcript.timed[event]), None)
    marks = [("sent", found.sent_ns), ("head", found.headers_ns), ("first event", first_ns), (end, found.end_ns)]
    marks += [(markers.SIGNS[marker.sign], marker.at_ns) for marker in one.opened.markers if marker.sign != "S"]
    return sorted(((name, at_ns) for name, at_ns in marks if at_ns is not None), key=lambda mark: mark[1])


def _reads(one: StreamPage) -> JsonObject:
    """Return the reads in columns; `skipped` are the bytes that are missing from the tape before each."""
    reads = one.full.reads
    ends = [start + size for start, size in zip(reads.start, reads.size, strict=True)]
    return {
        "seq": deltas(reads.seq),
        "at": deltas(reads.at_ns),
        "relayed": [
            None if relayed is None else relayed - at for at, relayed in zip(reads.at_ns, reads.relayed_ns, strict=True)
        ],
        "size": list(reads.size),
        "skipped": [start - end for start, end in zip(reads.start, [0, *ends], strict=False)],
        "borders": deltas(one.opened.borders),
        "owners": deltas(one.opened.owners),
    }


def _events(one: StreamPage, shared: Shared) -> JsonObject:
    """Return the events in columns; `types` has the names of the types, `type` the place of each event's there."""
    transcript = one.opened.transcript
    types: dict[str, int] = {}
    type = [types.setdefault(item.type, len(types)) for item in one.full.decoded.items()]
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
        "told": _told(transcript, shared),
    }


def _told(transcript: Transcript, shared: Shared) -> dict[int, str]:
    """Return the descriptions of events without output: their summaries, or, without texts, only their meanings."""
    others = [event for event in range(len(transcript)) if transcript.kind(event) not in OUTPUT]
    if shared.text or shared.bodies:
        return {event: text for event in others if (text := events.summary(transcript, event))}
    meanings = ((event, without_credentials(events.meaning(transcript, event))) for event in others)
    return {event: meaning for event, meaning in meanings if meaning}


def _outputs(one: StreamPage) -> JsonObject:
    """Return when each output chunk came, and in which event: the gaps between them are those of `icl`."""
    outputs = Attribution(one.full.exchange, one.full.reads, one.full.decoded).outputs
    return {"at": deltas(output.at_ns for output in outputs), "event": deltas(output.item for output in outputs)}


def _tokens(one: StreamPage) -> list[list[int]]:
    """Return when usage was reported, and the output tokens that it counted by then."""
    found = ((timed.at_ns, registry.tokens(timed.chunk).output) for timed in one.full.decoded.chunks())
    return [[at, output] for at, output in found if at is not None and output is not None]


def _texts(transcript: Transcript, shared: Shared) -> Iterator[JsonObject]:
    """Yield the texts by choice, in the order in which they began; without texts only how long their pieces are."""
    for voice in transcript.voices:
        named = [("reasoning", voice.reasoning), ("content", voice.content), ("refusal", voice.refusal)]
        for call in voice.calls:
            named += [("call", call.name), ("arguments", call.arguments)]
        for kind, track in sorted((one for one in named if len(one[1])), key=lambda one: one[1].number):
            yield {"kind": kind, "choice": voice.index, **_pieces(track, shared)}


def _pieces(track: Track, shared: Shared) -> JsonObject:
    spans = [(delta.start, delta.end) for delta in track.deltas()]
    if shared.text or shared.bodies:
        return {"events": deltas(track.events), "pieces": [track.text[start:end] for start, end in spans]}
    return {"events": deltas(track.events), "sizes": [end - start for start, end in spans]}


def _request(one: StreamPage, shared: Shared) -> JsonObject:
    request = one.known.request
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


def _tool(name: str, observed: Observed) -> JsonObject:
    report = report_of(name, [measure_observed(name, observed)])
    found = tool_tables.rows(report)
    return {
        "tool": name,
        "remarks": [remark.plain for remark in tool_tables.remarks(report)],
        "rows": [[row[field] for field in _TOOL_FIELDS] for row in found],
    }


def _banner(one: StreamPage, shared: Shared) -> Iterator[tuple[str, str]]:
    request, response = one.known.request, (*one.known.exchange.headers.response, *one.known.exchange.headers.trailers)
    left_out = [] if shared.text or shared.bodies else ["the texts of the answer (--with-text)"]
    left_out += [] if shared.bodies else ["the bytes of the request and of the response (--with-bodies)"]
    if left_out:
        yield "Left out:", f"{' and '.join(left_out)}."
    redacted = list(_redacted((*request.headers, *response)))
    url = ["the URL"] if _MARK in request.exchange.upstream + request.exchange.path else []
    names = ", ".join(formatting.line(name) for name in (*redacted, *url))
    yield "Redacted:", f"{names}." if names else "nothing: no credential was found in its headers and its URL."
    held = ["headers, labels, URL, error messages, finish reasons and types of events, credentials redacted"]
    held += [] if shared.text or shared.bodies else ["how long the texts are"]
    rule = f"in which {document.MASKED if one.is_masked else 'nothing is redacted'}"
    held += [f"texts of the answer, {rule}"] if shared.text or shared.bodies else []
    held += [f"bodies, {rule}"] if shared.bodies else []
    yield "Included:", f"{'; '.join(held)}."


def _redacted(headers: Iterable[Sequence[str]]) -> Iterator[str]:
    return iter(dict.fromkeys(name for name, value in headers if _MARK in value))

"""The command `show`: one exchange, as a page or in its parts, laid out by `wiretape.viewer.exchange.report`."""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

import click

from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.commands import options, output
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from rich.text import Text

    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.source.base import Place, Recorded, Selection, Source

Part = Callable[["Recorded", Output, Thresholds], None]
"""Shows one part of an exchange."""


def _summary(exchange: "Recorded", out: Output, limits: Thresholds) -> None:
    from wiretape.recorder.decode.attribution import Attribution
    from wiretape.viewer.exchange import story
    from wiretape.viewer.timing.verdicts import verdicts

    if out.format not in (None, "table"):
        _facts(exchange, out, limits)
        return
    row, timed = exchange.worked_out(), Attribution(*exchange.observed())
    judged = verdicts(timed, row.outcome, limits)
    output.show(story.lines(row, timed, judged, exchange.headers().response, output.width()))
    if row.cache_broken_at is not None and row.cache_verdict != "hit":
        from wiretape.viewer.exchange import changes, report
        from wiretape.viewer.exchange.conversation import Folding

        if (change := changes.first_at(exchange.changed(), row.cache_broken_at)) is not None:
            folding = Folding(output.width(), "compare --part request has all")
            output.show(report.rendered([[], *changes.lines([change], folding)]))


def brief(exchange: "Recorded", limits: Thresholds, *, with_error: bool) -> "Iterator[Text]":
    """Yield the summary of an exchange without the words of its answer; of an error, its message if `with_error`."""
    from dataclasses import replace

    from wiretape.recorder.decode.attribution import Attribution
    from wiretape.viewer.exchange import story
    from wiretape.viewer.timing.verdicts import verdicts

    row, timed = exchange.worked_out(), Attribution(*exchange.observed())
    row = row if with_error else replace(row, error_message=None)
    return story.brief(row, timed, verdicts(timed, row.outcome, limits), exchange.headers().response)


def _facts(exchange: "Recorded", out: Output, limits: Thresholds) -> None:
    from wiretape.recorder.decode.attribution import Attribution
    from wiretape.viewer.exchange import report
    from wiretape.viewer.record import rows
    from wiretape.viewer.timing.verdicts import verdicts

    row, headers = exchange.worked_out(), exchange.headers()
    if out.format not in (None, "table"):
        out.put_one(rows.record(row, headers))
        return
    judged = verdicts(Attribution(*exchange.observed()), row.outcome, limits)
    output.show(report.page(row, judged, headers.response, output.width()))
    output.show(report.headers("response headers", headers.response))
    output.show(report.headers("response trailers", headers.trailers))
    if not output.on_terminal():
        output.show(report.headers("request headers", headers.request))


def _timing(exchange: "Recorded", out: Output, limits: Thresholds) -> None:
    from wiretape.recorder.decode.attribution import Attribution
    from wiretape.viewer.exchange import report
    from wiretape.viewer.timing import verdicts

    timed = Attribution(*exchange.observed())
    judged = verdicts.verdicts(timed, exchange.detail().outcome, limits)
    if out.is_table:
        output.show(report.timing(timed.slowness(), judged, limits, output.width(), timed.exchange.untimed))
    else:
        out.put(verdicts.FIELDS, map(verdicts.row, judged))


def _text(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    from wiretape.viewer.exchange import facts, report
    from wiretape.viewer.record.fields import TEXT_FIELDS

    row = exchange.detail()
    if out.format not in (None, "table"):
        out.put_one({field: getattr(row, field) for field in ("id", *TEXT_FIELDS)})
        return
    is_bytes = out.format is None and not output.on_terminal()
    if all(getattr(row, field) is None for field in (("content",) if is_bytes else TEXT_FIELDS)):
        more = "; --format json has all of it" if any(getattr(row, field) for field in TEXT_FIELDS) else ""
        _report_nothing("text", facts.no_text(row, report.HINT) + more)
    if is_bytes:
        _write_bytes((row.content or "").encode())
    else:
        output.show(report.answer(row))


def _events(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    from wiretape.viewer.exchange import events
    from wiretape.viewer.exchange.clocks import Times
    from wiretape.viewer.exchange.transcript import Transcript
    from wiretape.viewer.record.fields import EVENT_FIELDS

    decoded = exchange.observed()[2]
    transcript = Transcript(decoded)
    if out.is_table:
        room = output.width()
        lines = list(events.lines(transcript, Times()))
        if room is not None:
            lines = [line if cell_len(line) <= room else f"{set_cell_size(line, room - 1)}…" for line in lines]
        output.show(map(Text, lines))
    else:
        out.put(EVENT_FIELDS, events.table(transcript, decoded))
    if not len(transcript):
        _report_no_body(exchange, "events")


def _reads(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    from wiretape.viewer.record.fields import SENT_READ_FIELDS

    reads = exchange.reads()
    if not out.put(SENT_READ_FIELDS, map(_to_microseconds, reads) if out.is_table else reads):
        _report_no_body(exchange, "reads")


def _to_microseconds(read: "TableRow") -> "TableRow":
    """Return a read for a table: points below each other, and enough digits for the relay's delay."""
    return {name: f"{value:,.3f}" if isinstance(value, float) else value for name, value in read.items()}


def _request(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    from wiretape.recorder.decode.exchange import NOT_SHIPPED
    from wiretape.recorder.errors import NotShipped
    from wiretape.viewer.exchange import pages, report
    from wiretape.viewer.record import rows

    if out.format not in (None, "table"):
        out.put_one(rows.request(exchange.request()))
    elif out.format is None and not output.on_terminal():
        data = exchange.sent() or exchange.request().plain or b""
        if not data and NOT_SHIPPED in (row := exchange.detail()).flags:
            raise NotShipped(row.id)
        _write_bytes(data)
    else:
        output.show(report.rendered(pages.request(exchange.known())))
        items = exchange.observed()[2].items()
        output.show(report.messages(item for item in items if item.sender == "client"))


def _conversation(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    from wiretape.viewer.exchange import conversation, report
    from wiretape.viewer.exchange.conversation import Folding

    turn = exchange.turn()
    if out.format not in (None, "table"):
        out.put_one(conversation.record(turn))
        return
    folding = Folding(output.width(), "a pipe gets all of it") if output.on_terminal() else Folding()
    output.show(report.rendered(conversation.lines(turn, folding, report.HINT)))


def _context(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    from wiretape.viewer.exchange import report
    from wiretape.viewer.sessions import content, context

    prompt = exchange.context()
    if out.format == "json":
        out.put_one(context.record(prompt.context))
    elif out.is_table:
        output.show(report.rendered([*content.head(prompt), []]))
        out.put(content.FIELDS, content.table(prompt))
        output.show(report.rendered(content.results(prompt)))
    else:
        out.put(context.FIELDS, map(context.part, prompt.context.parts))


def _raw(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    from wiretape.recorder.decode import encoding

    # Without the head nothing would tell a reader how to decompress the body.
    _write_bytes(encoding.uncoded(exchange.headers().response, exchange.body()))


def _with_headers(exchange: "Recorded", out: Output, _: Thresholds) -> None:
    head, trailers = _head_and_trailers(exchange)
    # Headers are recorded as Latin-1, in which each byte is a character.
    _write_bytes(head.encode("latin-1", "replace") + exchange.body() + trailers.encode("latin-1", "replace"))


def _head_and_trailers(exchange: "Recorded") -> tuple[str, str]:
    from wiretape.viewer.exchange import facts, plain

    row, headers = exchange.detail(), exchange.headers()
    if row.status is None:
        _report_nothing("headers", facts.reason(row))
        return "", ""
    return plain.head(row, headers.response), plain.fields(headers.trailers)


def _readable(exchange: "Recorded", *, with_headers: bool) -> None:
    """Show the body on a terminal: text without control characters, the beginning of anything else as hex."""
    from wiretape.viewer.exchange import report

    head, trailers = _head_and_trailers(exchange) if with_headers else ("", "")
    _show_lines(head)
    body, decoded = exchange.body(), exchange.observed()[2]
    if decoded.framing == "websocket":
        output.show(report.messages(decoded.items()))
    else:
        if decoded.data != body:
            message = "the body came encoded and is shown decoded; a pipe with -i gets it as it came"
            click.echo(f"wiretape: {message}", err=True)
        output.show(report.body(decoded.data))
    _show_lines(trailers)


def _show_lines(text: str) -> None:
    from rich.text import Text

    from wiretape.viewer.text.formatting import line

    output.show(Text(line(text_line)) for text_line in text.split("\r\n")[:-1])


def _report_no_body(exchange: "Recorded", things: str) -> None:
    from wiretape.viewer.exchange import facts, report

    _report_nothing(things, facts.no_body(exchange.detail(), report.HINT))


def _report_nothing(things: str, reason: str) -> None:
    click.echo(f"wiretape: there {'is' if things == 'text' else 'are'} no {things}: {reason}", err=True)


def _write_bytes(data: bytes) -> None:
    with output.stdout() as out:
        out.write(data)


def _refusal(part: str, id: str) -> str:
    if part == "time":
        return f"--part time is of a session, and {id} is an exchange: name a session, such as @s or s:KEY"
    return f"--part {part} is of an exchange, and {id} is a session: its parts are {' and '.join(_OF_SESSIONS)}"


def _session(source: "Source", reference: str, part: str, out: Output, limits: Thresholds) -> None:
    from wiretape.recorder.clock import SYSTEM
    from wiretape.viewer.exchange import facts
    from wiretape.viewer.report import sessions as report
    from wiretape.viewer.sessions.account import by_turn
    from wiretape.viewer.sessions.exchanges import account_of, spans
    from wiretape.viewer.source.base import Measuring, Selection
    from wiretape.viewer.stats import summary

    key = source.session(reference)
    ((_, members),) = source.members([key], limits, SYSTEM)
    selection = Selection(numbers=tuple(member.no for member in members))
    if part == "time":
        rows_of_turns = source.rows((*report.FACTS, "turns"), selection)
        turns = [*by_turn(spans(members, limits).spans, limits)]
        rows = [*report.turn_rows(turns, {member.no: row for member, row in zip(members, rows_of_turns, strict=True)})]
        names = out.fields(report.TURN_FIELDS)
        if out.is_table and names is None:
            output.show_table(report.turns(rows, output.width()))
        else:
            out.put(names or tuple(report.TURN_FIELDS), rows)
        return
    (row,) = source.sessions(selection, limits, SYSTEM)
    (figures,) = source.figures((), selection, Measuring())
    row |= summary.duplicates_row(figures.duplicates, figures.paid.currency)
    stalls = [*_stalls(source, selection, limits)]
    if out.format not in (None, "table"):
        out.put_one(row | {"stalls": [{"id": id, "stall": story} for id, story in stalls]})
    else:
        quotas = source.rows(tuple(facts.QUOTAS), selection)
        account = account_of(members, limits)
        output.show(report.lines(key, account, row["models"], row["asked"], row, [*quotas], output.width()))
        output.show(report.stalls(stalls, output.width()))


def _stalls(source: "Source", selection: "Selection", limits: Thresholds) -> "Iterator[tuple[str, str]]":
    """Yield the id of an exchange and one of its stalls in words, for those that were silent longest."""
    from wiretape.recorder.decode.attribution import Attribution
    from wiretape.viewer.timing import wording
    from wiretape.viewer.timing.verdicts import verdicts

    silences = ("max_output_silence_ms", "first_output_silence_ms")
    candidates = [
        (silence_ms, row["no"], row)
        for row in source.rows(("no", "id", "outcome", "ended_by", *silences), selection)
        if (silence_ms := max(row[name] or 0 for name in silences)) > limits.stall_ms and row["outcome"] != "open"
    ]
    most = 20  # decoded, which takes longer than all else of the page
    for _, no, row in sorted(sorted(candidates, key=itemgetter(0))[-most:], key=itemgetter(1)):
        for verdict in verdicts(Attribution(*source.exchange(no).observed()), row["outcome"], limits):
            if verdict.kind == "stall":
                yield row["id"], wording.story(verdict, row["ended_by"])


_PARTS: dict[str, Part] = {
    "summary": _summary, "facts": _facts, "text": _text, "conversation": _conversation, "timing": _timing,
    "events": _events, "reads": _reads, "request": _request, "context": _context, "raw": _raw,
}  # fmt: skip
_OF_SESSIONS = ("summary", "time")
_BEGINNING = "wiretape: this is only the beginning: decoding stopped at a limit; --part raw has all bytes"


@click.command()
@options.exchange_id
@options.tape_db
@click.option(
    "--part",
    type=click.Choice([*_PARTS, "time"]),
    default="summary",
    show_default=True,
    help="The part to show; time is of a session.",
)
@click.option(
    "-i",
    "--include",
    is_flag=True,
    help="With --part raw: the status line and the headers before the body, the trailers behind it, as curl -i does: "
    "on a pipe the body keeps its content coding then.",
)
@click.option("--force", is_flag=True, help="Write raw bytes even to a terminal.")
@options.judged
@output.formatted(default="a page; on a pipe tsv of timing, events and reads, bytes of text and request")
def show(
    id: str | None, db: "Place | None", part: str, include: bool, force: bool, thresholds: Thresholds, out: Output
) -> None:
    """Show one exchange, or a part of it.

    ID is 4 or more characters of an exchange's id, @ (the newest, the default), @-1, @err (a failure), @stall or @slow;
    or a session: s: and the first characters of its key, or @s (the newest). Of a session, the summary has what took
    its time, and the part time a row for each turn (see 'wiretape help sessions').

    The part conversation has the messages of the request, and the answer; a rule marks the new messages since the turn
    before. On a pipe it is complete, and the parts text, request and raw are the content, the request body and the
    response body, byte for byte but for their content codings (of a WebSocket, all data of the client and of upstream,
    in frames); if there is no content, standard error has the reason. A terminal gets raw text without its control
    characters, and the beginning of anything else as hex.
    """
    if part == "raw" and out.format is not None:
        raise click.UsageError("--part raw is the body, byte for byte: it has no --format")
    if include and part != "raw":
        raise click.UsageError("-i is for --part raw; --part facts has the headers, too")
    if part not in ("summary", "facts", "timing", "time") and (limits_named := options.limits_given()):
        raise click.UsageError(f"--part {part} is not judged: leave out {', '.join(limits_named)}")
    from wiretape.viewer.source.base import names_session

    id = id or ("@s" if part == "time" else "@")
    if (is_session := names_session(id)) != (part == "time") and not (is_session and part in _OF_SESSIONS):
        raise click.UsageError(_refusal(part, id))
    with output.opened(options.place(db)) as source:
        if is_session:
            _session(source, id, part, out, thresholds)
            return
        exchange = source.exchange(source.find(id))
        if part == "raw" and output.on_terminal() and not force:
            _readable(exchange, with_headers=include)
        else:
            (_with_headers if include else _PARTS[part])(exchange, out, thresholds)
        if part in ("text", "conversation", "events") and "decode_limit" in exchange.detail().flags:
            click.echo(_BEGINNING, err=True)

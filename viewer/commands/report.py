"""The command `report`: an exchange, a session or the exchanges of a filter as Markdown for an issue."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from wiretape.recorder import __version__
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NotFound
from wiretape.viewer.commands import masking, options, output
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from wiretape.recorder.tape.masking import Masker
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.sessions.account import Account
    from wiretape.viewer.sessions.report import IssueReport, ReportedExchange
    from wiretape.viewer.source.base import Place, Selection, Source


@click.command()
@options.exchange_id
@options.tape_db
@options.filtered
@click.option("--with-text", is_flag=True, help="Add the error's message, which may quote the prompt, and the answer.")
@click.option(
    "--format", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True, help="Output format."
)
@masking.no_redact
@options.judged
def report(
    id: str | None,
    db: "Place | None",
    filter: "Filter | None",
    with_text: bool,
    format: str,
    no_redact: bool,
    thresholds: Thresholds,
) -> None:
    """Report on an exchange, on a session or on the exchanges of a filter, as Markdown for an issue.

    ID is 4 or more characters of an exchange's id, @ (the newest, the default), @-1, @err (a failure), @stall or @slow;
    or s:KEY or @s (the newest) for a session. Of a session or a filter, the time is accounted, and up to five exchanges
    are listed: failed, stalled and slowest ones.

    The report has the verdict with its evidence, times, versions, the provider's request ids, retries, and a list of
    unknown facts. It holds no prompt, answer, key, label, path or name of a machine.
    """
    if id is not None and filter is not None:
        raise click.UsageError("name an exchange or give a filter, not both")
    mask = masking.mask(no_redact)
    place = options.place(db)
    place.require("bodies")
    with output.opened(place) as source:
        writer = _ReportWriter(source, thresholds, with_text, mask)
        issue_report = writer.of_reference(id or "@") if filter is None else writer.several("filter", filter=filter)
    if masked := masking.counts(mask):
        click.echo(f"wiretape: {masked.removeprefix(', ')}", err=True)
    if format == "json":
        from dataclasses import asdict

        Output("json").put_one(asdict(issue_report))
        return
    from rich.text import Text

    from wiretape.viewer.sessions import issue

    output.show(map(Text, issue.lines(issue_report)))


class _ReportWriter:
    """Reads exchanges for a report."""

    def __init__(self, source: "Source", limits: Thresholds, with_text: bool, mask: "Masker | None") -> None:
        from wiretape.viewer.sessions.disclosure import Disclosure

        self._source, self._limits, self._with_text, self._mask = source, limits, with_text, mask
        self._rule = Disclosure(_private_words())

    def exchange(self, no: int) -> "IssueReport":
        from wiretape.viewer.source.base import Selection

        return self._report("exchange", Selection(numbers=(no,)), [self._reported(no)])

    def of_reference(self, reference: str) -> "IssueReport":
        from wiretape.viewer.source.base import names_session

        if not names_session(reference):
            return self.exchange(self._source.find(reference))
        return self.several("session", numbers=tuple(self._source.referred(reference)))

    def several(
        self, kind: str, filter: "Filter | None" = None, numbers: tuple[int, ...] | None = None
    ) -> "IssueReport":
        """Return the report on the exchanges of a session or a filter. Raises `NotFound` if there is none."""
        from wiretape.recorder.clock import SYSTEM
        from wiretape.recorder.decode.exchange import FAILURES
        from wiretape.viewer.query.parser import parse
        from wiretape.viewer.query.syntax import Match
        from wiretape.viewer.sessions import report
        from wiretape.viewer.source.base import Selection

        selection = Selection(filter, numbers)
        if not self._source.count(selection):
            raise NotFound(options.nothing(self._source, filter))
        failed = selection.narrowed(Match("outcome", tuple((name,) for name in FAILURES)))
        stalled = selection.narrowed(parse("flag:stall"))
        chosen = report.chosen(
            {
                "failed": self._source.numbers(failed, report.MOST_EXCHANGES),
                "stalled": self._largest("max_output_silence_ms", stalled),
                "slowest": self._largest("first_output_silence_ms", selection),
            }
        )
        accounts = [
            account for _, account in self._source.accounts(selection, self._limits, SYSTEM) if account.is_known
        ]
        time = sum(accounts[1:], accounts[0]) if accounts else None
        return self._report(kind, selection, [self._reported(no, *chosen[no]) for no in sorted(chosen)], time)

    def _largest(self, field: str, selection: "Selection") -> list[int]:
        from wiretape.viewer.sessions import report

        rows = self._source.rows(("no",), selection, order=(field, True), limit=report.MOST_EXCHANGES)
        return [row["no"] for row in rows]

    def _report(
        self, kind: str, selection: "Selection", reported: "list[ReportedExchange]", time: "Account | None" = None
    ) -> "IssueReport":
        from wiretape.recorder.decode import causes
        from wiretape.viewer.sessions import report

        endings = report.cleaned(self._source.endings(selection))
        # One row at each end: a filter may select all exchanges of a large tape.
        ends = (
            next(self._source.rows(("started_at",), selection, newest_first=is_newest, limit=1))
            for is_newest in (False, True)
        )
        first_started, last_started = (row["started_at"] for row in ends)
        return report.report(
            kind, __version__, reported, endings, (first_started, last_started), causes.counts(endings), time
        )

    def _reported(self, no: int, *reasons: str) -> "ReportedExchange":
        from wiretape.recorder.decode.attribution import Attribution
        from wiretape.viewer.sessions import report
        from wiretape.viewer.timing.verdicts import verdicts

        exchange = self._source.exchange(no)
        row, timed = exchange.detail(), Attribution(*exchange.observed())
        request_headers, answered, _ = exchange.headers()
        if self._mask is not None and self._with_text:
            texts = self._mask.value([row.content, row.error_message])
            row = replace(row, content=texts[0], error_message=texts[1])
        recorded = exchange.attempts()
        examined = report.Examined(
            row=row,
            timed=timed,
            verdicts=verdicts(timed, row.outcome, self._limits),
            request_headers=request_headers,
            response_headers=answered,
            attempts=recorded.attempts,
            retry_count=recorded.retry_count,
            recorded_by=recorded.version,
            reasons=reasons,
        )
        return report.reported(examined, self._rule, self._limits, with_text=self._with_text)


def _private_words() -> Iterator[str]:
    """Yield the names of this machine and of its user."""
    host = socket.gethostname()
    # With its domain or without: programs write either.
    yield from (host, host.partition(".")[0], os.path.basename(os.path.expanduser("~")))
    yield from filter(None, (os.environ.get(name) for name in ("USER", "LOGNAME")))

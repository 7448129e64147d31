"""The command `resend`: recorded requests sent again, and recorded."""

import os
import sys
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wiretape.recorder.commands.options import ca_file, gathered, proxy, tape_path
from wiretape.recorder.errors import NotFound
from wiretape.recorder.latch import heeded
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape.redact import message
from wiretape.viewer.commands import options, output
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from wiretape.recorder.relay.providers import Upstream
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.source.base import Place, Source
    from wiretape.viewer.stats.prices import Prices
    from wiretape.viewer.wings.resend.requests import ResentRequest, Target
    from wiretape.viewer.wings.resend.sending import Sender

PAIR_FIELDS: Final = (
    "id", "resent_from", "resent_no", "status", "outcome", "ttft_ms", "duration_ms", "output_tokens", "cost",
)  # fmt: skip
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class _What:
    """What is sent: to which API, asking which model, with which key, and from which turn on."""

    to: str | None
    model: str | None
    key_from: str | None
    first_turn: int | None


@dataclass(frozen=True, slots=True)
class _HowOften:
    """How often and how fast it is sent, and the limits of what it may cost."""

    repeats: int
    rate: float | None
    every: str | None
    max_requests: int
    max_cost: str | None


_what = gathered(
    "what",
    lambda to, to_model, key_from, first_turn: _What(to, to_model, key_from, first_turn),
    click.option("--to", metavar="URL|NAME[=URL]",
                 help="The API to ask, as 'record --upstream' takes it. [default: the recorded one]"),
    click.option("--model", "to_model", metavar="NAME", help="Ask this model, in the body or the path."),
    click.option("--key-from", metavar="VARIABLE",
                 help="The environment variable with the key. [default: that of the API's tools; none on loopback]"),
    click.option("--from", "first_turn", type=click.IntRange(min=1), metavar="N",
                 help="Of sessions: only the turns from N on, as they were recorded."),
)  # fmt: skip
_how_often = gathered(
    "how",
    _HowOften,
    click.option("-n", "--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
                 help="Send everything N times, a round after the other."),
    click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N",
                 help="Send N requests a second. [default: the distances of the recording]"),
    click.option("--every", metavar="TIME", help="Begin a round every TIME, such as 30s."),
    click.option("--max-requests", type=click.IntRange(min=1), default=20, show_default=True, metavar="N",
                 help="Send nothing if there are more."),
    click.option("--max-cost", metavar="AMOUNT", help="Send nothing that may cost more, by the prices of the "
                 "configuration; stop before the sum passes it."),
)  # fmt: skip


@click.command()
@options.exchange_ids()
@options.tape_db
@options.filtered_but_model
@_what
@_how_often
@click.option("-o", "--output", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="TAPE",
              help="Record to this tape. [default: --db, so that pairs are on one tape]")  # fmt: skip
@proxy
@ca_file
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and send nothing.")
@click.option("-y", "--yes", is_flag=True, help="Send without asking.")
@output.formatted(columns=True)
def resend(
    ids: tuple[str, ...],
    db: "Place | None",
    filter: "Filter | None",
    what: _What,
    how: _HowOften,
    file: Path | None,
    proxy: str | None,
    ca_file: Path | None,
    dry_run: bool,
    yes: bool,
    out: Output,
) -> None:
    """Send recorded requests again, to their API or another, and record the answers.

    ID is 4 or more characters of an exchange's id, @ (the newest), @-1, @err (a failed one), @stall or @slow; or s:KEY
    or @s, all exchanges of a session; - reads ids from stdin, one per line. Only generations over HTTP are sent; no
    answer is put into a later request.

    Keys come from the environment, never from the tape: OPENAI_API_KEY for api.openai.com, and so on; a host of this
    machine, or one that is not known, gets none without --key-from. A key goes over TLS or to this machine only. No
    redirect is followed. HTTPS_PROXY and NO_PROXY are heeded as by 'record': a proxy sees no key of a host with TLS.

    Before anything is sent, it says what, to whom, with which variable's key and at what cost, and asks. At most eight
    requests run at once, and none is sent twice by itself. Each answer is a row; 'compare --pairs' compares them with
    the recorded ones. They have the label resent=RUN, and @s, serve and resend leave them out unless a filter or an ID
    names them.

    Exit code: 0 all answered well, 1 any failed, 2 refused, 3 the budget ended it, 4 nothing is selected.
    """
    from wiretape.viewer import config
    from wiretape.viewer.export import fields
    from wiretape.viewer.query.coverage import without_resent
    from wiretape.viewer.record.fields import DETAIL_FIELDS, FIELDS

    names = out.fields(fields.meanings((*PAIR_FIELDS, *FIELDS, *DETAIL_FIELDS))) or PAIR_FIELDS
    place, prices = options.place(db), config.read().prices
    with output.opened(place) as source:
        selection = options.selection(source, ids, filter if ids else without_resent(filter))
        requests = _requests(source, source.numbers(selection)[::-1], what, prices)
        if not requests:
            raise NotFound(options.nothing(source, filter, ids) if not source.count(selection) else "nothing to send")
    sender = _sender(requests, how, prices, tape_path(file) if file else tape_path(place.file))
    _describe(sender, what, how, prices)
    if dry_run:
        return
    _ask(yes)
    from wiretape.recorder.relay import outward

    sender.proxies, sender.ca_file = outward.read(os.environ, proxy), ca_file
    sys.exit(_send(sender, names, out))


def _requests(source: "Source", numbers: "list[int]", what: _What, prices: "Prices") -> "list[ResentRequest]":
    """Return the requests in the order of their starts; those that cannot be sent are named."""
    from wiretape.recorder.decode.operation import GENERATIONS
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.wings.resend import requests

    targets, kept, left_out = dict[tuple[str, str | None], "Target"](), list["ResentRequest"](), list[str]()
    for recorded in source.rows(requests.FACTS, Selection(numbers=tuple(numbers))) if numbers else ():
        if what.first_turn is not None and (recorded["turn"] or 0) < what.first_turn:
            continue
        name = recorded["upstream"], recorded["upstream_name"]
        request = source.exchange(source.find(recorded["id"])).request()
        try:
            if recorded["operation"] in GENERATIONS and name not in targets:
                targets[name] = _target(what, *name)
            chosen = targets.get(name) or requests.NOWHERE
            kept.append(requests.resent(recorded, request, chosen, what.model, prices))
        except requests.CannotResend as error:
            left_out.append(f"{recorded['id'][:8]} ({error})")
    if left_out:
        more = f" and {counted(len(left_out) - _NAMED, 'other')}" if len(left_out) > _NAMED else ""
        click.echo(message(f"left out: {', '.join(left_out[:_NAMED])}{more}"), err=True)
    return sorted(kept, key=lambda request: request.started_ns)


def _target(what: _What, url: str, name: str | None) -> "Target":
    """Return the API that is asked in place of a recorded one. Raise a usage error if it may not be."""
    from wiretape.recorder.relay import providers
    from wiretape.viewer.wings.resend import requests

    upstream: Upstream
    if what.to is not None:
        upstream = options.parsed("--to", providers.parse, what.to)
    else:
        try:
            if requests.MARK in url:
                raise ValueError("its user and password are not recorded")
            upstream = providers.make(name or "", url)
        except ValueError as error:
            raise click.UsageError(f"{safe(url)} cannot be asked again ({error}): name a target by --to") from error
    try:
        return requests.target(upstream, what.key_from)
    except requests.CannotResend as error:
        raise click.UsageError(str(error)) from error


def _sender(requests: "list[ResentRequest]", how: _HowOften, prices: "Prices", tape: Path) -> "Sender":
    """Return the run of requests. Raise a usage error if it passes a limit before it has begun."""
    from wiretape.viewer.query.values import number
    from wiretape.viewer.stats.prices import UNITS
    from wiretape.viewer.wings.resend.sending import Budget, Pace, Sender

    if how.rate is not None and how.every is not None:
        raise click.UsageError("--rate and --every exclude each other")
    count = len(requests) * how.repeats
    if count > how.max_requests:
        raise click.UsageError(f"{counted(count, 'request')}, more than {how.max_requests}: raise --max-requests")
    most: int | None = None
    if how.max_cost is not None:
        try:
            most = int(Decimal(how.max_cost) * UNITS)
        except (InvalidOperation, ValueError, OverflowError):
            raise click.BadParameter(f"{how.max_cost!r} is no amount", param_hint="--max-cost") from None
        unpriced = [request.model for request in requests if request.cost is None]
        if unpriced:
            raise click.UsageError(
                f"--max-cost: the cost for {safe(unpriced[0] or 'no model')} is unknown (help prices)"
            )
        estimate = sum(request.cost or 0 for request in requests) * how.repeats
        if estimate > most:
            raise click.UsageError(f"it may cost {estimate / UNITS:.6g} {prices.currency}, more than --max-cost")
    every_ns = (
        None if how.every is None else options.parsed("--every", lambda text: int(number(text, "duration")), how.every)
    )
    return Sender(requests, tape, os.urandom(4).hex(), how.repeats, Pace(how.rate, every_ns), Budget(most))


def _describe(sender: "Sender", what: _What, how: _HowOften, prices: "Prices") -> None:
    """Say what is sent, on standard error: never the value of a key."""
    from wiretape.viewer.stats.prices import UNITS

    requests = sender.requests
    costs = [request.cost for request in requests]
    known = [cost for cost in costs if cost is not None]
    total = f"{sum(known) * how.repeats / UNITS:.6g} {prices.currency}" if len(known) == len(costs) else "unknown"
    times = "" if how.repeats == 1 else f" ({counted(len(requests), 'exchange')} × {how.repeats})"
    tokens = (sum(request.recorded[f"{side}_tokens"] or 0 for request in requests) * how.repeats
              for side in ("input", "output"))  # fmt: skip
    lines = [
        f"{counted(len(requests) * how.repeats, 'request')}{times}, recorded to {sender.tape} as resent={sender.run}"
    ]
    for target in dict.fromkeys(request.target for request in requests):
        models = dict.fromkeys(request.model or "–" for request in requests if request.target == target)
        key = "no key" if target.variable is None else f"key: {target.variable}"
        lines.append(f"to {target.upstream.url}, model {', '.join(models)}, {key}")
    lines.append("recorded: {:,} input and {:,} output tokens; cost: {}".format(*tokens, total))
    for line in lines:
        click.echo(message(line), err=True)


def _ask(yes: bool) -> None:
    """Ask on a terminal; elsewhere, raise a usage error unless `--yes` is given."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("nobody can be asked here: add --yes to send, or --dry-run")
    if not click.confirm("Send?", err=True):
        raise click.exceptions.Exit(2)


def _send(sender: "Sender", names: tuple[str, ...], out: Output) -> int:
    """Send, print a row for each answer, and return the exit code."""
    import asyncio

    from wiretape.recorder.relay.loop import run
    from wiretape.viewer.source.place import TapePlace
    from wiretape.viewer.stats.prices import UNITS
    from wiretape.viewer.wings.resend.sending import Outcome

    stopped_by, ends = list[int](), list[Outcome]()

    def cost_of(id: str) -> int | None:
        with TapePlace(sender.tape).opened() as source:
            (row,) = _rows(source, sender.run, ("id", "cost"), id)
        return None if row["cost"] is None else int(Decimal(repr(row["cost"])) * UNITS)

    async def send() -> int:
        def stop(number: int) -> None:
            stopped_by.append(number)
            sender.stop()

        import signal

        for number in heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        ends.append(await sender.send())
        return 0

    sender.cost_of = cost_of
    run(send)
    (end,) = ends
    for problem in (*end.problems, *(end.totals.problems if end.totals else ())):
        click.echo(message(f"wiretape: {problem}"), err=True)
    with TapePlace(sender.tape).opened() as source:
        rows = _rows(source, sender.run, tuple(dict.fromkeys((*names, "outcome", "status"))))
    out.put_rounded(names, [{name: row[name] for name in names} for row in rows])
    if stopped_by:
        return 128 + stopped_by[0]
    if end.left:
        click.echo(f"wiretape: {counted(end.left, 'request')} left: the sum would pass --max-cost", err=True)
        return 3
    is_good = [row["outcome"] == "complete" and (row["status"] or 0) < 400 for row in rows]
    return 0 if all(is_good) and len(rows) == end.sent else 1


def _rows(source: "Source", run: str, names: tuple[str, ...], id: str | None = None) -> "list[TableRow]":
    """Return the exchanges of a run, or one of them, in their order."""
    from wiretape.viewer.query.syntax import Labelled
    from wiretape.viewer.query.values import pattern
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.wings.resend.sending import LABEL

    numbers = None if id is None else (source.find(id),)
    return list(source.rows(names, Selection(Labelled(((LABEL, pattern(run)),)), numbers)))

"""The command `resend`: recorded requests sent again, and recorded."""

import os
import sys
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wiretape.recorder.commands.options import ca_file, db, gathered, proxy, tape_path
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
    from wiretape.viewer.source.base import Source
    from wiretape.viewer.stats.prices import Prices
    from wiretape.viewer.wings.resend.requests import ResentRequest, Target
    from wiretape.viewer.wings.resend.sending import Sender

PAIR_FIELDS: Final = (
    "id", "resent_from", "resent_no", "status", "outcome", "ttft_ms", "duration_ms", "output_tokens", "cost",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _ResendOptions:
    """The target, the model and the key; the first turn; how often and how fast; and the limits."""

    to: str | None
    to_model: str | None
    key_from: str | None
    first_turn: int | None
    repeats: int
    rate: float | None
    every: str | None
    max_requests: int
    max_cost: str | None


_resending = gathered(
    "chosen",
    _ResendOptions,
    click.option("--to", metavar="URL|NAME[=URL]",
                 help="The API to ask, as 'record --upstream' takes it. [default: the recorded one]"),
    click.option("--model", "to_model", metavar="NAME", help="Ask this model, in the body or the path."),
    click.option("--key-from", metavar="VARIABLE",
                 help="The environment variable with the key. [default: that of the API's tools; none on loopback]"),
    click.option("--from", "first_turn", type=click.IntRange(min=1), metavar="N",
                 help="Send only the turns from N on of each session."),
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
@db
@options.filtered_but_model
@_resending
@click.option("-o", "--output", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="TAPE",
              help="Record to this tape. [default: --db, so that pairs are on one tape]")  # fmt: skip
@proxy
@ca_file
@click.option("--dry-run", is_flag=True, help="List requests, targets and cost, and send nothing.")
@click.option("-y", "--yes", is_flag=True, help="Send without asking.")
@output.formatted(columns=True)
def resend(
    ids: tuple[str, ...],
    db: Path | None,
    filter: "Filter | None",
    chosen: _ResendOptions,
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

    The requests, the target, the model, the variable of the key and the cost are listed first, with a question. At most
    eight requests run at once, and none is sent twice by itself. Each answer is a row; 'compare --pairs' compares them
    with the recorded ones. They have the label resent=RUN; @s, serve and resend leave them out unless a filter or an ID
    names them.

    Exit code: 0 all answered well, 1 any failed, 2 refused, 3 the budget ended it, 4 nothing is selected.
    """
    from wiretape.recorder.relay import outward
    from wiretape.viewer import config
    from wiretape.viewer.export import fields
    from wiretape.viewer.query.coverage import without_resent
    from wiretape.viewer.record.fields import DETAIL_FIELDS, FIELDS
    from wiretape.viewer.source.place import TapePlace

    names = out.fields(fields.meanings((*PAIR_FIELDS, *FIELDS, *DETAIL_FIELDS))) or PAIR_FIELDS
    tape, prices = tape_path(file or db), config.read().prices
    if tape.suffix == ".jsonl":
        raise click.UsageError(f"{click.format_filename(tape)} is a text: name a tape to record to by -o")
    with output.opened(TapePlace(options.tape(db))) as source:
        selection = options.selection(source, ids, filter if ids else without_resent(filter))
        requests = _requests(source, source.numbers(selection), chosen, prices)
        if not requests:
            raise NotFound("nothing to send" if source.count(selection) else options.nothing(source, filter, ids))
    sender = _sender(requests, chosen, prices, tape)
    sender.proxies, sender.ca_file = outward.read(os.environ, proxy), ca_file
    _describe(sender, prices)
    if dry_run:
        return
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError("no terminal for the question: add --yes to send, or --dry-run")
        click.confirm("Send?", abort=True, err=True)
    sys.exit(_send(sender, names, out))


def _requests(
    source: "Source", numbers: "list[int]", chosen: _ResendOptions, prices: "Prices"
) -> "list[ResentRequest]":
    """Return the requests in the order of their starts; those that cannot be sent are named."""
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.wings.resend import requests

    targets, resent, reasons = dict[tuple[str, str | None], "Target"](), list["ResentRequest"](), list[str]()
    for recorded in source.rows(requests.FACTS, Selection(numbers=tuple(numbers))) if numbers else ():
        if chosen.first_turn is not None and (recorded["turn"] or 0) < chosen.first_turn:
            continue
        name, request = (
            (recorded["upstream"], recorded["upstream_name"]),
            source.exchange(source.find(recorded["id"])).request(),
        )
        try:
            requests.check(recorded, request)
            targets[name] = targets.get(name) or _target(chosen, *name)
            resent.append(requests.resent(recorded, request, targets[name], chosen.to_model, prices))
        except requests.CannotResend as error:
            reasons.append(f"{recorded['id'][:8]} ({error})")
    if reasons:
        most = 10
        more = f" and {counted(len(reasons) - most, 'other')}" if len(reasons) > most else ""
        click.echo(message(f"left out: {', '.join(reasons[:most])}{more}"), err=True)
    return sorted(resent, key=lambda request: request.started_ns)


def _target(chosen: _ResendOptions, url: str, name: str | None) -> "Target":
    """Return the target for the requests of a recorded upstream. Raise a usage error if there is none."""
    from wiretape.recorder.relay import providers
    from wiretape.viewer.wings.resend import requests

    upstream: Upstream
    if chosen.to is not None:
        upstream = options.parsed("--to", providers.parse, chosen.to)
    else:
        try:
            if requests.MARK in url:
                raise ValueError("its user and password are not recorded")
            upstream = providers.make(name or "", url)
        except ValueError as error:
            raise click.UsageError(f"{safe(url)} is no target ({error}): name a target by --to") from error
    try:
        return requests.target(upstream, chosen.key_from)
    except requests.CannotResend as error:
        raise click.UsageError(str(error)) from error


def _sender(requests: "list[ResentRequest]", chosen: _ResendOptions, prices: "Prices", tape: Path) -> "Sender":
    """Return the run of requests. Raise a usage error if it passes a limit before it has begun."""
    from wiretape.viewer.query.values import number
    from wiretape.viewer.stats.prices import UNITS
    from wiretape.viewer.wings.resend.sending import Budget, Pace, Sender

    if chosen.rate is not None and chosen.every is not None:
        raise click.UsageError("--rate and --every exclude each other")
    count = len(requests) * chosen.repeats
    if count > chosen.max_requests:
        raise click.UsageError(f"{counted(count, 'request')}, more than {chosen.max_requests}: raise --max-requests")
    most: int | None = None
    if chosen.max_cost is not None:
        try:
            most = int(Decimal(chosen.max_cost) * UNITS)
        except (InvalidOperation, ValueError, OverflowError):
            raise click.BadParameter(f"{chosen.max_cost!r} is no amount", param_hint="--max-cost") from None
        unpriced = [request.model for request in requests if request.cost is None]
        if unpriced:
            name = safe(unpriced[0] or "no model")
            raise click.UsageError(f"--max-cost: {name} has no price, or its tokens are unknown (help prices)")
        estimate = sum(request.cost or 0 for request in requests) * chosen.repeats
        if estimate > most:
            raise click.UsageError(f"it may cost {estimate / UNITS:.6g} {prices.currency}, more than --max-cost")
    every_ns: int | None = None
    if chosen.every is not None:
        every_ns = options.parsed("--every", lambda text: int(number(text, "duration")), chosen.every)
    return Sender(requests, tape, os.urandom(4).hex(), chosen.repeats, Pace(chosen.rate, every_ns), Budget(most))


def _describe(sender: "Sender", prices: "Prices") -> None:
    """Print the requests, targets and cost on standard error; of a key, the name of its variable."""
    from wiretape.viewer.stats.prices import UNITS

    requests, repeats = sender.requests, sender.repeats
    times = "" if repeats == 1 else f" ({counted(len(requests), 'exchange')} × {repeats})"
    count = counted(len(requests) * repeats, "request")
    lines = [f"{count}{times}, recorded to {sender.tape} as resent={sender.run}"]
    for target in dict.fromkeys(request.target for request in requests):
        models = dict.fromkeys(request.model or "–" for request in requests if request.target == target)
        key = "no key" if target.variable is None else f"key: {target.variable}"
        lines.append(f"to {target.upstream.url}, model {', '.join(models)}, {key}")
    input_tokens, output_tokens = (
        sum(request.recorded[name] or 0 for request in requests) * repeats for name in ("input_tokens", "output_tokens")
    )
    costs = [request.cost for request in requests if request.cost is not None]
    is_known = len(costs) == len(requests)
    cost = f"{sum(costs) * repeats / UNITS:.6g} {prices.currency}" if is_known else "unknown"
    lines.append(f"recorded: {input_tokens:,} input and {output_tokens:,} output tokens; cost: {cost}")
    for line in lines:
        click.echo(message(line), err=True)


def _send(sender: "Sender", names: tuple[str, ...], out: Output) -> int:
    """Send, print a row for each answer, and return the exit code."""
    import asyncio
    import signal

    from wiretape.recorder.relay.loop import run
    from wiretape.viewer.query.syntax import Labelled
    from wiretape.viewer.query.values import pattern
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.source.place import TapePlace
    from wiretape.viewer.stats.prices import UNITS
    from wiretape.viewer.wings.resend.sending import LABEL

    signals = list[int]()
    of_run = Labelled(((LABEL, pattern(sender.run)),))

    def read(fields: tuple[str, ...], id: str | None = None) -> "list[TableRow]":
        with TapePlace(sender.tape).opened() as source:
            numbers = None if id is None else (source.find(id),)
            return list(source.rows(fields, Selection(of_run, numbers)))

    def cost_of(id: str) -> int | None:
        (row,) = read(("cost",), id)
        return None if row["cost"] is None else int(Decimal(repr(row["cost"])) * UNITS)

    async def send() -> int:
        def stop(number: int) -> None:
            signals.append(number)
            sender.stop()

        for number in heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        await sender.send()
        return 0

    sender.cost_of = cost_of
    run(send)
    for problem in sender.problems:
        click.echo(message(problem), err=True)
    rows = read(tuple(dict.fromkeys((*names, "outcome", "status"))))
    out.put_rounded(names, [{name: row[name] for name in names} for row in rows])
    if signals:
        return 128 + signals[0]
    if sender.unsent:
        click.echo(message(f"{counted(sender.unsent, 'request')} left: the sum would pass --max-cost"), err=True)
        return 3
    is_good = [row["outcome"] == "complete" and (row["status"] or 0) < 400 for row in rows]
    return 0 if all(is_good) and len(rows) == sender.sent else 1

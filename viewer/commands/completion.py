"""The command `completion`, and a shell's candidates at Tab: ids, models, labels, words of filters, options.

It has to be quick and quiet: after any error, nothing is offered. Values from a tape are hostile, and a shell puts
some of them on its line verbatim: only values of letters, digits and a few harmless signs are offered.

The scripts and the protocol are click's: the script runs the program with `_WIRETAPE_COMPLETE` set. Bash splits a word
at `:` and `=`, so that it offers the fields of filters and the keys of labels, and none of their values.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from wiretape.recorder import destinations
from wiretape.recorder.commands import options
from wiretape.recorder.decode.exchange import Outcome
from wiretape.recorder.local_time import local
from wiretape.recorder.sanitize import safe

if TYPE_CHECKING:
    Item = CompletionItem[str]
else:
    Item = CompletionItem  # which has no parameter before click 8.5
Completer = Callable[[click.Context, click.Parameter, str], list[Item]]

VARIABLE = "_WIRETAPE_COMPLETE"
"""The variable that marks a request of a shell's script."""

_HARMLESS = re.compile(r"[^\W_][\w.:/@+=%-]{0,127}")


def _quietly(offered: Callable[[click.Context, str], Iterable[Item]]) -> Completer:
    """Return a completer that offers, once each, the candidates that continue the typed text."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Item]:
        items: dict[str, Item] = {}
        with contextlib.suppress(Exception):  # a line that is being typed is no place for an error
            for item in offered(context, incomplete):
                if item.value.startswith(incomplete):
                    items.setdefault(item.value, item)
        return list(items.values())

    return complete


@_quietly
def ids(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the latest exchanges that are not named yet, each with its beginning, model, duration and flags."""
    from wiretape.viewer.source import candidates

    given_ids = context.params.get("ids") or ()
    if not incomplete or incomplete.startswith("@"):
        yield Item("@", help="the newest")
        yield Item("@err", help="the newest that failed")
        yield Item("@stall", help="the newest that stalled")
        yield Item("@slow", help="the longest first silence of output")
        yield Item("@s", help="the newest session")
    if incomplete.startswith("s:"):
        yield from (Item(f"s:{key}") for key in candidates.sessions(_tape(context)) if _HARMLESS.fullmatch(key))
    for id, *facts in candidates.exchanges(_tape(context), incomplete):
        if _HARMLESS.fullmatch(id) and id not in given_ids:
            yield Item(id, help=_summary(*facts))


@_quietly
def models(context: click.Context, incomplete: str) -> Iterator[Item]:
    return (Item(value) for value in _values(context, "model"))


@_quietly
def labels(context: click.Context, incomplete: str) -> Iterator[Item]:
    return _labels(context, "=" in incomplete)


@_quietly
def filters(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the next item of a filter: a field, or a value of the field before the cursor."""
    from wiretape.viewer.query.completion import place

    if (position := place(incomplete)) is not None:
        prefix, field, typed = position
        items = _values_of(context, field.lower(), typed) if field else _fields()
        yield from (Item(prefix + item.value, help=item.help) for item in items)


@_quietly
def sorts(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the fields that a list can be sorted by."""
    from wiretape.viewer.query.fields import FIELDS

    minus = incomplete[:1] if incomplete.startswith("-") else ""
    for field in FIELDS.values():
        if field.kind not in ("label", "has") and field.rows == (field.name,):
            yield Item(minus + field.name.removesuffix("_ms"), help=field.kind)


@_quietly
def groups(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the keys of groups; after a comma, those that are not named yet."""
    from wiretape.viewer.stats.metrics import GROUPS

    chosen = incomplete.split(",")[:-1]
    keys = (f"label.{item.value.removesuffix('=')}" for item in _labels(context, of_values=False))
    for name in (*GROUPS, "input_tokens:10k", *keys):
        if name not in chosen:
            yield Item(",".join([*chosen, name]))


@_quietly
def columns(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the columns of the command's table; after a comma, those that are not named yet."""
    from wiretape.viewer.record import fields
    from wiretape.viewer.stats.metrics import STATISTICS

    chosen = incomplete.split(",")[:-1]
    offered: Iterable[str] = STATISTICS if context.info_name == "stats" else fields.FIELDS
    if context.info_name == "timeouts":
        from wiretape.viewer.stats import timeouts

        offered = timeouts.MEANINGS
    for name in ("help", *offered) if not chosen else offered:
        if name not in chosen:
            yield Item(",".join([*chosen, name]))


@_quietly
def quantities(context: click.Context, incomplete: str) -> Iterator[Item]:
    from wiretape.viewer.stats.metrics import QUANTITIES

    return (Item(quantity.name, help=quantity.meaning) for quantity in QUANTITIES.values())


@_quietly
def tools(context: click.Context, incomplete: str) -> Iterator[Item]:
    from wiretape.viewer.stats.tools.tools import AUTHORITIES

    return (Item(name, help=rule.source) for name, rule in AUTHORITIES.items())


@_quietly
def topics(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the topics of `help` and the commands; after a group of commands, those in it."""
    from wiretape.viewer.commands.topics import names

    path = context.params.get("words") or ()
    command = context.find_root().command
    for name in path:
        command = command.commands[name] if isinstance(command, click.Group) else click.Command(name)
    if not path:
        yield from map(Item, names())
    if isinstance(command, click.Group):
        yield from (Item(name, help=topic.get_short_help_str()) for name, topic in sorted(command.commands.items()))


@_quietly
def figures(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer figures for a rule: a quantity, and after it a statistic."""
    from wiretape.viewer.stats.metrics import NAMES, QUANTITIES, RATES, STATISTICS

    quantity, dot, _ = incomplete.partition(".")
    if dot and quantity in NAMES:
        yield from (Item(f"{quantity}.{name}=") for name in STATISTICS)
        return
    yield from (Item(f"{name}=") for name in ("n", *RATES))
    yield from (Item(f"{figure.name}.", help=figure.meaning) for figure in QUANTITIES.values())


def _fields() -> Iterator[Item]:
    from wiretape.viewer.query.fields import FIELDS, NAMES
    from wiretape.viewer.query.operators import KINDS

    for name, field in NAMES.items():
        kind = FIELDS[field].kind
        if not name.endswith("_ms"):
            yield Item(name if KINDS[kind].units else f"{name}:", help=field if name != field else kind)


def _values_of(context: click.Context, name: str, incomplete: str) -> Iterator[Item]:
    from wiretape.viewer.query.fields import CHOICES, NAMES
    from wiretape.viewer.source import candidates

    field = NAMES[name]
    if field in CHOICES:
        yield from map(Item, CHOICES[field])
    elif field == "label":
        yield from _labels(context, "=" in incomplete)
    elif field == "upstream":
        yield from (Item(url.partition("://")[2].partition("/")[0]) for url in _values(context, field))
    elif field in ("started_at", "since", "until"):
        yield from map(Item, ("today", "yesterday"))
    elif field in candidates.FIELDS:
        yield from map(Item, _values(context, field))


def _labels(context: click.Context, of_values: bool) -> Iterator[Item]:
    from wiretape.viewer.source import candidates

    for key, value in candidates.labels(_tape(context)):
        if _HARMLESS.fullmatch(key) and (not of_values or _HARMLESS.fullmatch(value)):
            yield Item(f"{key}={value}" if of_values else f"{key}=")


def _values(context: click.Context, field: str) -> Iterator[str]:
    from wiretape.viewer.source import candidates

    return (value for value in candidates.values(_tape(context), field) if _HARMLESS.fullmatch(value.removeprefix("/")))


def _tape(context: click.Context) -> Path:
    path = context.params.get("db")
    if destinations.names_server(str(path)):
        raise LookupError("no server is queried while somebody types")
    return options.tape_path(path and Path(path))


def _summary(
    started_at: str, model: str | None, duration_ns: int | None, outcome: Outcome | None, flags: str | None
) -> str:
    """Return the local start of an exchange, its model, its duration, its outcome unless complete, and its flags."""
    took = "open" if duration_ns is None else f"{duration_ns / 1e9:.1f} s"
    odd = outcome if outcome not in (None, "complete") else ""
    time = local(started_at)
    start = "" if time is None else f"{time:%H:%M}"
    return safe(" ".join(filter(None, (start, model, took, odd, flags))))[:100].replace(",", " ")


_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for completion at Tab in a shell.

    It completes ids, models, labels, filters and options.

    For bash, in ~/.bashrc: eval "$(wiretape completion bash)"; for zsh the same in ~/.zshrc, after compinit; for fish,
    in its config: wiretape completion fish | source
    """
    program = context.find_root().command
    click.echo(_SHELLS[shell](program, {}, "wiretape", VARIABLE).source(), nl=False)

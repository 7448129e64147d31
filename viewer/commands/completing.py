"""What a shell offers when Tab is pressed: ids, models, labels, and the words that filters and options know.

It has to be quick and quiet. Only click and the standard library are loaded, the tape is read as it is, without
waiting for anybody, and whatever goes wrong, nothing is offered. Values from a tape are hostile, and a shell puts some
of them on its line as they are: what is not of letters, digits and a few harmless signs is not offered. How a shell is
told is left to `shells`.
"""

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from recorder.commands import options
from recorder.sanitize import safe
from recorder.tape import definitions

Item = CompletionItem[str]
Completer = Callable[[click.Context, click.Parameter, str], list[Item]]

GROUPS: Final = (
    "model", "request_model", "upstream", "method", "path", "status", "outcome", "outcome_detail", "error_code",
    "finish_reason", "day", "hour",
)  # fmt: skip
"""Those of `samples`, which loads numpy."""

STATISTICS: Final = ("n", "mean", "std", "min", "p50", "p90", "p95", "p99", "max")
"""Those of `aggregates`, which loads numpy."""

RATES: Final = ("error_rate", "error_rate_all", "stream_error_rate", "cancel_rate", "goodput")
"""Those of `check`, which loads numpy."""

TOPICS: Final = ("filters", "fields")
"""Those of `helping`, which stands above."""

_LATEST = 50
_LOOKED_AT = 2000
_MOST_STEPS = 2_000_000
_TIMEOUT_SECONDS = 0.05
_HARMLESS = re.compile(r"[^\W_][\w.:/@+=%-]{0,127}")
_TERM = re.compile(r"(?:.*[\s(])?-?", re.DOTALL)
_VALUE = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(?:!=|[:=])(?:[^\s\"]*,)?")
_IDS = "SELECT e.id, e.started_at, coalesce(m.model, e.request_model), m.duration_ns, m.outcome, m.flags"
_JOINED = "FROM exchanges e LEFT JOIN measures m ON m.exchange_no = e.no"
_NEWEST = f"{_JOINED} WHERE e.no > (SELECT max(no) FROM exchanges) - {_LOOKED_AT}"
_OF_FIELD: Final = {
    "model": "coalesce(m.model, e.request_model)",
    "request_model": "e.request_model",
    "status": "e.status",
    "finish_reason": "m.finish_reason",
    "error_code": "m.error_code",
    "method": "e.method",
    "path": "e.path",
    "upstream": "e.upstream",
}
"""The fields of which a filter is offered the values that the tape has, as SQL."""


def _quietly(offered: Callable[[click.Context, str], Iterable[Item]]) -> Completer:
    """Make a completer of what gives candidates: those that go on from what is typed are offered, once each."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Item]:
        found: dict[str, Item] = {}
        with contextlib.suppress(Exception):  # a line that is being typed is no place for an error
            for item in offered(context, incomplete):
                if item.value.startswith(incomplete):
                    found.setdefault(item.value, item)
        return list(found.values())

    return complete


@_quietly
def ids(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the latest exchanges that are not named yet, each with its beginning, model, duration and flags."""
    named = context.params.get("ids") or ()
    if not incomplete or incomplete.startswith("@"):
        yield Item("@", help="the newest")
        yield Item("@err", help="the newest that failed")
    # Numbers first, and by the index of ids only where a beginning is given: else it would be gone through as a whole.
    beginning = ("WHERE id >= ? AND id < ?", incomplete, f"{incomplete}~") if incomplete else ("",)
    latest = f"SELECT no FROM exchanges {beginning[0]} ORDER BY no DESC LIMIT {_LATEST}"
    statement = f"{_IDS} {_JOINED} WHERE e.no IN ({latest}) ORDER BY e.no DESC"
    for id, *facts in _rows(context, statement, *beginning[1:]):
        if _HARMLESS.fullmatch(id) and id not in named:
            yield Item(id, help=_told(*facts))


@_quietly
def models(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the models of the tape's newest exchanges."""
    return (Item(value) for value in _values(context, "model"))


@_quietly
def labels(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer keys of labels, and after a key its values."""
    return _labels(context, "=" in incomplete)


@_quietly
def filters(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer what may come next in a filter: a field, or a value of the field that stands there."""
    if incomplete.count('"') % 2:
        return
    start = _end(_TERM, incomplete)
    value = _VALUE.match(incomplete, start)
    found = _fields() if value is None else _values_of(context, value[1].lower(), incomplete[value.end() :])
    before = incomplete[: start if value is None else value.end()]
    yield from (_item(before + item.value, item.help, is_open=item.is_open) for item in found)


@_quietly
def sorts(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the fields that a list can be sorted by."""
    from viewer.filters.fields import FIELDS

    minus = incomplete[:1] if incomplete.startswith("-") else ""
    for field in FIELDS.values():
        if field.kind not in ("label", "has") and field.rows == (field.name,):
            yield Item(minus + field.name.removesuffix("_ms"), help=field.kind)


@_quietly
def groups(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer what figures can be grouped by; after a comma, what is not named yet."""
    named = incomplete.split(",")[:-1]
    keys = (f"label.{item.value.removesuffix('=')}" for item in _labels(context, of_values=False))
    for name in (*GROUPS, *keys):
        if name not in named:
            yield Item(",".join([*named, name]))


@_quietly
def columns(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the columns of the command's table; after a comma, what is not named yet."""
    from viewer import rows

    named = incomplete.split(",")[:-1]
    offered = STATISTICS if context.info_name == "stats" else rows.FIELDS
    for name in ("help", *offered) if not named else offered:
        if name not in named:
            yield Item(",".join([*named, name]))


@_quietly
def quantities(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the quantities that have statistics."""
    from viewer.stats.metrics import QUANTITIES

    return (Item(one.name, help=one.meaning) for one in QUANTITIES.values())


@_quietly
def tools(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the tools whose definitions are known; after an @, the newest release of each rule."""
    from viewer.stats.tools.tools import AUTHORITIES, EARLIER

    tool, at, _ = incomplete.partition("@")
    if at and tool in AUTHORITIES:
        rules = (AUTHORITIES[tool], *EARLIER.get(tool, ()))
        return (Item(f"{tool}@{rule.releases.last}", help=f"{rule.source} {rule.releases}") for rule in rules)
    return (Item(name, help=rule.source) for name, rule in AUTHORITIES.items())


@_quietly
def topics(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer the topics of `help` and the commands; after a group of commands, those in it."""
    path = context.params.get("topics") or ()
    command = context.find_root().command
    for name in path:
        command = command.commands[name] if isinstance(command, click.Group) else click.Command(name)
    if not path:
        yield from map(Item, TOPICS)
    if isinstance(command, click.Group):
        yield from (Item(name, help=one.get_short_help_str()) for name, one in sorted(command.commands.items()))


@_quietly
def figures(context: click.Context, incomplete: str) -> Iterator[Item]:
    """Offer figures for a rule: a quantity, and after it a statistic."""
    from viewer.stats.metrics import QUANTITIES

    quantity, dot, _ = incomplete.partition(".")
    if dot and quantity in QUANTITIES:
        yield from (_item(f"{quantity}.{name}=", is_open=True) for name in STATISTICS)
        return
    yield from (_item(f"{name}=", is_open=True) for name in ("n", *RATES))
    yield from (_item(f"{one.name}.", one.meaning, is_open=True) for one in QUANTITIES.values())


def _fields() -> Iterator[Item]:
    from viewer.filters.fields import FIELDS, NAMES

    for name, meant in NAMES.items():
        kind = FIELDS[meant].kind
        if not name.endswith("_ms"):
            has_values = kind in ("text", "label", "has", "time")
            yield _item(f"{name}:" if has_values else name, meant if name != meant else kind, is_open=True)


def _values_of(context: click.Context, name: str, incomplete: str) -> Iterator[Item]:
    from viewer.filters.fields import CHOICES, NAMES

    field = NAMES[name]
    if field in CHOICES:
        yield from map(Item, CHOICES[field])
    elif field == "label":
        yield from _labels(context, "=" in incomplete)
    elif field == "upstream":
        yield from (Item(url.partition("://")[2].partition("/")[0]) for url in _values(context, field))
    elif field in _OF_FIELD:
        yield from map(Item, _values(context, field))
    elif field in ("started_at", "since", "until"):
        yield from map(Item, ("today", "yesterday"))


def _labels(context: click.Context, of_values: bool) -> Iterator[Item]:
    texts = [text for (text,) in _rows(context, f"SELECT DISTINCT e.labels {_NEWEST}")]
    pairs = {pair for text in texts for pair in json.loads(text).items()}
    for key, value in sorted(pairs):
        if _HARMLESS.fullmatch(key) and (not of_values or _HARMLESS.fullmatch(value)):
            yield _item(f"{key}={value}" if of_values else f"{key}=", is_open=not of_values)


def _values(context: click.Context, field: str) -> Iterator[str]:
    found = _rows(context, f"SELECT DISTINCT {_OF_FIELD[field]} {_NEWEST} LIMIT {_LOOKED_AT}")
    for value in sorted(str(value) for (value,) in found if value is not None):
        if _HARMLESS.fullmatch(value.removeprefix("/")):
            yield value


def _rows(context: click.Context, statement: str, *values: str) -> list[Any]:
    """Ask the tape that the line names, without waiting, for no longer than a few million steps and without a trace."""
    path = options.tape_path(context.params.get("db"))
    if not path.is_file():
        return []
    settled = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    uri = f"file:{quote(str(path.resolve()))}?mode=ro{settled}"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_SECONDS)) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.set_progress_handler(lambda: True, _MOST_STEPS)
        connection.execute("PRAGMA trusted_schema=OFF")
        if definitions.unreadable(connection):
            return []
        return connection.execute(statement, values).fetchall()


def _told(started_at: str, model: str | None, duration_ns: int | None, outcome: str | None, flags: str | None) -> str:
    """Tell of an exchange in a few words: when it began (UTC), its model, how long it took, and what was odd."""
    took = "open" if duration_ns is None else f"{duration_ns / 1e9:.1f} s"
    odd = outcome if outcome not in (None, "complete") else ""
    told = safe(" ".join(filter(None, (started_at[11:16], model, took, odd, flags))))
    return told[:100].replace(",", " ")


def _item(value: str, help: str | None = None, *, is_open: bool = False) -> Item:
    """Make an item; one that is open is no whole word yet, so that no space may follow it."""
    return Item(value, help=help, is_open=is_open)


def _end(expression: "re.Pattern[str]", text: str) -> int:
    found = expression.match(text)
    return found.end() if found else 0

"""Options shared by several commands: the source, selection, limit and order of exchanges, figures, and pace.

An invalid value is a usage error that names the option. The language of filters is
`query.parser`'s.
"""

import functools
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from wiretape.recorder import paths
from wiretape.recorder.commands import hints
from wiretape.recorder.commands.options import TapeFile, gathered, tape_path
from wiretape.recorder.decode.stalls import LIMITS
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer import contracts
from wiretape.viewer.commands import completion
from wiretape.viewer.timing.playback import Pace

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.source.base import Measuring, Place, Selection, Source
    from wiretape.viewer.stats.metrics import Bound, Quantity
    from wiretape.viewer.stats.summary import Method


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

RANKED_GAP_BYTES: Final = 28
"""Memory that a server needs for each gap that it ranks for exact percentiles, in bytes, at most.

Measured with 17, 20 and 34 million gaps by max_memory_usage on release 26.9: 20 to 28 bytes.
"""


class _SourceType(click.Path):
    """The path of a tape, or the URL of a server; a `Place` stays unchanged."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the source that is named."""
        if not isinstance(value, str | Path):
            return value
        if ctx is not None and ctx.resilient_parsing:  # completion, which loads no more than it must
            return value
        for address in contracts.sources():
            if str(value).startswith(address.prefix):
                try:
                    return contracts.load(address.path)(str(value))
                except ValueError as error:
                    self.fail(str(error), param, ctx)
        path: Any = super().convert(value, param, ctx)
        return _tape(path)


class _TapeType(TapeFile):
    """The path of a tape; a `Place` stays unchanged."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str | Path):
            return value
        path = super().convert(value, param, ctx)
        return path if ctx is not None and ctx.resilient_parsing else _tape(path)


def _tape(path: Path | None) -> "Place":
    from wiretape.viewer.source.place import TapePlace

    return TapePlace(tape(path))


_TAPE_SUFFIXES = (".db", ".jsonl", ".sqlite")


def is_file(word: str) -> bool:
    """Return True if a word is the path of a tape, by its suffix, or of another file."""
    return word.endswith(_TAPE_SUFFIXES) or ("/" in word and paths.is_file(word))


def file_advice(word: str) -> str:
    return f"{word} is a file: name a tape with --db {shlex.quote(word)}" if is_file(word) else ""


class _ReferenceType(click.types.StringParamType):
    """A reference to an exchange; the path of a tape is none."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx and ctx.params.get("pairs"):  # two tapes, the sides of `compare --pairs`
            return super().convert(value, param, ctx)
        if advice := file_advice(value):
            self.fail(advice, param, ctx)
        if safe(value) != value:  # bytes that are no UTF-8, which no query takes
            self.fail(f"{value!r} is no id of an exchange", param, ctx)
        return super().convert(value, param, ctx)


def exchange_ids(metavar: str = "[ID]...", **more: Any) -> Callable[[F], F]:
    """Return a decorator that adds the argument `ids`: references to exchanges."""
    return click.argument(
        "ids", nargs=-1, metavar=metavar, type=_ReferenceType(), shell_complete=completion.ids, **more
    )


exchange_id = click.argument("id", required=False, metavar="[ID]", type=_ReferenceType(), shell_complete=completion.ids)
"""Adds the argument `id`: a reference to an exchange, or None."""

db = click.option(
    "--db",
    type=_SourceType(path_type=Path, readable=False),
    envvar="WIRETAPE_DB",
    help="The tape, or a server: clickhouse://HOST/DATABASE, or chdb:DIR. [default: in the user's data directory]",
)
"""Adds `--db` to a command that reads tapes and servers alike; the command gets a `Place`, or None."""
tape_db = click.option(
    "--db",
    type=_TapeType(path_type=Path, readable=False),
    envvar="WIRETAPE_DB",
    help="The tape. [default: in the user's data directory]",
)
"""Adds `--db` to a command that reads a tape; the command gets a `Place`, or None."""


def named_place(name: str) -> "Place":
    """Return the tape or server that a word names, as `--db` does."""
    source: Any = _SourceType(path_type=Path, readable=False)(name)
    return source  # type: ignore[no-any-return]


def place(place: "Place | None") -> "Place":
    return place or _tape(None)


def tape(file: Path | None) -> Path:
    """Return the path of the tape that is read; of a cut in text, that of a tape made of it."""
    path = tape_path(file)
    if path.suffix != ".jsonl":  # nothing is loaded for most
        return path
    from wiretape.recorder.tape import cut

    return cut.readable(path)


def read(
    filters: Sequence[str] = (),
    models: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    errors: bool = False,
    labels: Sequence[str] = (),
) -> "Filter | None":
    """Return one filter for all that the options select by; None if nothing was. Raise `click.BadParameter`."""
    from wiretape.recorder.decode.exchange import FAILURES
    from wiretape.viewer.query.parser import label, now, parse, started
    from wiretape.viewer.query.syntax import Labelled, Match, every
    from wiretape.viewer.query.values import pattern

    parts: list[Filter] = [parsed("--filter", parse, text) for text in filters]
    if models:
        parts.append(Match("model", tuple(parsed("--model", pattern, model) for model in models)))
    if since is not None:
        parts.append(parsed("--since", lambda text: started(">=", text, now()), since))
    if until is not None:
        parts.append(parsed("--until", lambda text: started("<", text, now()), until))
    if errors:
        parts.append(Match("outcome", tuple((name,) for name in FAILURES)))
    parts += [Labelled((parsed("--label", label, text),)) for text in labels]
    return every(parts) if parts else None


def text(
    filters: Sequence[str] = (),
    models: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    errors: bool = False,
    labels: Sequence[str] = (),
) -> str:
    """Return the text of that filter, empty for all: as it was typed, if it is one and nothing else was given."""
    filter = read(filters, models, since, until, errors, labels)
    is_typed = len(filters) == 1 and not any((models, since, until, errors, labels))
    if is_typed and safe(filters[0]) == filters[0]:
        return filters[0]
    return "" if filter is None else str(filter)


def read_sort(sort: str | None) -> tuple[str, bool] | None:
    from wiretape.viewer.query.parser import sort_order

    return None if sort is None else parsed("--sort", sort_order, sort)


FILTERS: Final = click.option(
    "-f", "--filter", "filters", multiple=True, metavar="EXPR", shell_complete=completion.filters,
    help="Select exchanges: 'model:gpt-* ttft>800ms -is:ok', or a word (in prompts: prompt:WORD); see "
    "'wiretape help filters'. Several filters must all match.",
)  # fmt: skip
"""The option `-f` alone, whose values `read` takes."""
_SELECTING = (
    FILTERS,
    click.option("--since", metavar="TIME", help="Only from this time on: 2h (ago), today, 14:00, 2026-11-21T14:00Z."),
    click.option("--until", metavar="TIME", help="Only before this time."),
    click.option("--errors", is_flag=True, help="Only failed exchanges."),
    click.option("--label", "labels", multiple=True, metavar="K[=V]", shell_complete=completion.labels,
                 help="Only exchanges with this label."),
)  # fmt: skip

_OF_MODEL = click.option(
    "--model", "models", multiple=True, metavar="NAME", shell_complete=completion.models,
    help="Only exchanges of this model; * is a wildcard.",
)  # fmt: skip
_ALL_SELECTING = (_SELECTING[0], _OF_MODEL, *_SELECTING[1:])

filtered = gathered("filter", read, *_ALL_SELECTING)
"""Adds the options that select exchanges; the command gets `filter`: a `Filter`, or None for all."""

filtered_but_model = gathered(
    "filter",
    lambda filters, since, until, errors, labels: read(filters, (), since, until, errors, labels),
    *_SELECTING,
)
"""Adds these options but `--model`, where a command has an option of that name."""

filtered_in_words = gathered("filter_text", text, *_ALL_SELECTING)
"""Adds the same options; the command gets `filter_text`."""

limited = click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="At most N rows.")
"""Add `-n`: the maximum number of rows, after filter and order."""

sorted_by = gathered(
    "sort",
    read_sort,
    click.option("-s", "--sort", metavar="FIELD", shell_complete=completion.sorts,
                 help="Sort by a field, such as ttft, or -max_gap for the largest first; unknown values are last."),
)  # fmt: skip
"""Add `-s`; the command gets `sort`: a row's field and True for descending order, or None."""


_SLOWEST, _FASTEST = 1e-6, 1e6
"""Limits of a recording's playback speed, besides as fast as possible."""


def read_pace(speed: float, max_gap: str | None, no_wait: bool) -> Pace:
    """Return the pace that the options give. Raise `click.BadParameter`."""
    from wiretape.viewer.query.values import number

    def duration(text: str) -> int:
        return int(number(f"{text}s" if text.replace(".", "", 1).isdecimal() else text, "duration"))

    if speed != 0 and not _SLOWEST <= speed <= _FASTEST:  # nor is NaN
        raise click.BadParameter(f"use 0, or {_SLOWEST:g} to {_FASTEST:g}, not {speed:g}", param_hint="--speed")
    cap_ns = None if max_gap is None else parsed("--max-gap", duration, max_gap)
    return Pace(math.inf if no_wait or speed == 0 else speed, cap_ns)


PACING: Final = (
    click.option("--speed", type=float, default=1.0, show_default=True, metavar="N",
                 help="N times the recorded speed; 0: as fast as possible."),
    click.option("--max-gap", metavar="TIME", help="Shorten each silence to TIME at most, such as 1s or 500ms."),
    click.option("--no-wait", is_flag=True, help="The same as --speed 0."),
)  # fmt: skip
"""The options of a playback's speed: the parameters of `read_pace`."""

paced = gathered("pace", read_pace, *PACING)
"""Add the options of a playback's speed; the command gets `pace`."""


def judged(command: F) -> F:
    """Add an option for each limit of a verdict; the command gets `thresholds`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from wiretape.viewer import config

        return command(*args, thresholds=config.thresholds({name: kwargs.pop(name) for name in LIMITS}), **kwargs)

    for name, limit in reversed(LIMITS.items()):
        text = f"{limit.metadata['doc']} [default: {limit.default:g}]"
        wrapped = click.option(f"--{name.replace('_', '-')}", metavar=limit.metadata["sign"], help=text)(wrapped)
    return cast(F, wrapped)


def of_wings(command: str) -> Callable[[F], F]:
    """Add the flags of wings' export formats to `export`, and the options that wings add to any command of the core."""

    def decorate(function: F) -> F:
        added: list[Callable[[Any], Any]] = []
        for wing in contracts.built_in().values():
            flags = [item for item in wing.exports if item.flag and command == "export"]
            added += [click.option(f"--{item.name}", is_flag=True, help=item.flag) for item in flags]
            added += [contracts.load(item.path) for item in wing.options if item.command == command]
        return functools.reduce(lambda decorated, option: option(decorated), reversed(added), function)

    return decorate


def limits_given() -> list[str]:
    """Return the names of the limits' options that are on the command line."""
    source = click.get_current_context().get_parameter_source
    return [f"--{name.replace('_', '-')}" for name in LIMITS if source(name) is ParameterSource.COMMANDLINE]


def groups(by: str | None, place: "Place") -> tuple[str, ...]:
    """Return the keys of `--by`. Raises `Unsupported` for groups that need sessions, where a source has none."""
    from wiretape.viewer.stats import metrics

    keys: tuple[str, ...] = () if by is None else parsed("--by", metrics.groups, by)
    for key in keys:
        if key in metrics.OF_SESSIONS:
            place.require("conversations", f"--by {key}")
    return keys


every_operation = click.option(
    "--all-operations", is_flag=True, help="Cover all operations (embeddings, models, …), not only generations."
)
"""Adds `--all-operations`, for `covered`."""


@dataclass(frozen=True, slots=True)
class MeasuringOptions:
    """The options of figures: the definition of percentiles, the objective of the goodput, and the exchanges."""

    method: "Method" = "linear"
    slo: str | None = None
    include_failed: bool = False
    all_operations: bool = False
    exact: bool = False

    @property
    def non_defaults(self) -> dict[str, object]:
        """The options that differ from their defaults, by name, without that of the operations."""
        values = {"--percentile-method": self.method != "linear", "--slo": self.slo}
        return {**values, "--include-failed": self.include_failed, "--exact": self.exact}

    def bounds(self, otherwise: str | None = None) -> "list[Bound]":
        """Return the bounds of the objective, or of another one if there is none. Raise `click.BadParameter`."""
        from wiretape.viewer.stats.metrics import objective

        text = otherwise if self.slo is None else self.slo
        return [] if text is None else parsed("--slo", objective, text)

    def definition(self, otherwise: str | None = None, histogram_of: "Quantity | None" = None) -> "Measuring":
        """Return the definition that a source takes; `otherwise` is an objective if none was given."""
        from wiretape.viewer.source.base import Measuring

        return Measuring(self.method, self.bounds(otherwise), self.include_failed, histogram_of, self.exact)


measured = gathered(
    "measuring",
    MeasuringOptions,
    click.option("--percentile-method", "method", type=click.Choice(["linear", "inverse_cdf", "mlperf"]),
                 default="linear", show_default=True, help="Interpolate, or take the nearest rank."),
    click.option("--slo", metavar="BOUNDS", help="The objective of each exchange, for the goodput, by its own values: "
                 "'ttft<800ms,icl_p99<200ms,tps_user>20'."),
    click.option("--include-failed", is_flag=True,
                 help="Include incomplete exchanges in latency figures."),
    click.option("--exact", is_flag=True, help="For a server: rank all gaps, even more than 1 G, for exact "
                 "percentiles instead of estimates (t-digest); this takes up to "
                 f"{RANKED_GAP_BYTES} bytes of memory per gap there."
                 ),
    every_operation,
)  # fmt: skip
"""Add the options of figures; the command gets `measuring`."""


def covered(source: "Source", selection: "Selection", all_operations: bool) -> "Selection":
    """Return the part of a selection that rates and latencies cover: generations, or all on request.

    A filter that names the operation, or `--all-operations`, requests all. Excluded exchanges, and streams that no
    dialect knows, are reported on stderr when the command ends, below its output.
    """
    from wiretape.recorder.commands.status import undecoded
    from wiretape.recorder.decode.exchange import UNDECODED
    from wiretape.viewer.query import coverage
    from wiretape.viewer.query.syntax import Match

    covered = selection.covered(all_operations)
    if count := source.count(selection.narrowed(Match("flags", ((UNDECODED,),)))):
        click.get_current_context().call_on_close(lambda: click.echo(f"wiretape: {undecoded(count)}", err=True))
    if covered.generations and (left_out := source.left_out(selection)):
        note = f"wiretape: {coverage.described(left_out)}: add operation:… to the filter, or --all-operations"
        click.get_current_context().call_on_close(lambda: click.echo(note, err=True))
    return covered


def selection(source: "Source", ids: Sequence[str], filter: "Filter | None") -> "Selection":
    """Return the exchanges that match a filter, of those that are named or of sessions that are, or of all.

    `-` reads references from stdin, one a line. Raises `NotFound` for a reference to no exchange, or to several.
    """
    from wiretape.viewer.source.base import Selection

    return Selection(filter, tuple(numbers(source, ids)) if ids else None)


def numbers(source: "Source", ids: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the named exchanges, and of those of the named sessions. Raises `NotFound`."""
    return (no for id in references(ids) for no in source.referred(id))


def references(ids: Sequence[str]) -> Iterator[str]:
    """Yield the references to exchanges on the command line; `-` stands for those on stdin, one a line."""
    for id in ids:
        if id != "-":
            yield id
            continue
        lines = (line.strip() for line in sys.stdin)
        # The first line of a column cut from a table is its name, which is too short for an id.
        yield from (line for line in lines if line not in ("", "id"))


def report_nothing(source: "Source", filter: "Filter | None", ids: Sequence[str] = ()) -> None:
    click.echo(hints.complete(f"wiretape: {nothing(source, filter, ids)}", sys.argv[1:]), err=True)


def nothing(source: "Source", filter: "Filter | None", ids: Sequence[str] = ()) -> str:
    """Return the message for an empty selection: no match among all exchanges or those of `ids`, or an empty tape.

    On a terminal, each term of the filter is followed by how many match that alone: a count of the whole tape each, for
    which no program should wait.
    """
    from wiretape.viewer.query.syntax import And, is_starred

    total = source.count()
    if not total:
        return source.empty
    if ids:
        return "no exchange was named" if filter is None else "0 of the exchanges that were named match"
    notes = [f"0 of {counted(total, 'exchange')} {'matches' if total == 1 else 'match'}"]
    if sys.stderr.isatty() and isinstance(filter, And):
        notes.append("; ".join(f"`{safe(str(term))}` alone matches {count:,}" for term, count in source.alone(filter)))
    if filter is not None and is_starred(filter):
        notes.append('* in quotes is no wildcard; search within a text by ~: error~"rate limit"')
    return ". ".join([*notes, *_still_to_come(filter), *_starred(source, filter), *_meant(source, filter)])


def _starred(source: "Source", filter: "Filter | None") -> Iterator[str]:
    """Yield a sentence for each term that would match with a wildcard at its end, or else at both ends."""
    from wiretape.viewer.query.fields import FIELDS
    from wiretape.viewer.query.syntax import And, Match
    from wiretape.viewer.source.base import Selection

    for term in filter.parts if isinstance(filter, And) else (filter,):
        if not isinstance(term, Match) or term.negated or any(len(pattern) > 1 for pattern in term.patterns):
            continue
        if FIELDS[term.field].choices or FIELDS[term.field].style not in ("whole", "host", "path"):
            continue
        ends = tuple((*pattern, "") for pattern in term.patterns)
        for patterns in (ends, tuple(("", *pattern) for pattern in ends)):
            wider = Match(term.field, patterns)
            if count := source.count(Selection(wider)):
                yield f"`{safe(str(wider))}` matches {count:,}"
                break


def _meant(source: "Source", filter: "Filter | None") -> Iterator[str]:
    from wiretape.viewer.listing import notices
    from wiretape.viewer.query.syntax import And, Word
    from wiretape.viewer.source.base import Selection

    for term in filter.parts if isinstance(filter, And) else (filter,):
        other = None if term is None else notices.meant(term)
        if other is not None and isinstance(term, Word):
            yield f"A word is not looked for in prompts: `{safe(str(other))}` does that"
        elif other is not None and (count := source.count(Selection(other))):
            yield f"`{safe(str(other))}` matches {count:,}"


def _still_to_come(filter: "Filter | None") -> Iterator[str]:
    """Yield a sentence for each term that asks for exchanges of the future."""
    from wiretape.viewer.query.parser import now
    from wiretape.viewer.query.syntax import And, Compare

    latest = now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for term in filter.parts if isinstance(filter, And) else (filter,):
        match term:
            case Compare("started_at", ">" | ">=", str(limit)) if limit > latest:
                yield f"`{term}` is still to come"


def parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    """Return an option's text, parsed by `parse`. Raise `click.BadParameter`, which names the option."""
    from wiretape.viewer.query.parser import checked

    try:
        return parse(checked(text))
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{text} is not UTF-8 (byte {error.start})", param_hint=option) from error
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def one_of(option: str, name: str, names: Sequence[str], kind: str) -> str:
    """Return a name that is one of `names`; raise `click.BadParameter`, which suggests some, if it is not."""
    from wiretape.viewer.query import guesses

    if name not in names:
        raise click.BadParameter(f"{name!r} is no {kind}{guesses.advice(name, names)}", param_hint=option)
    return name

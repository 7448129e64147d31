"""The command `help`: other commands' help, the filter language, and every field.

What is said of fields, operators and
values comes from the tables that the parser of filters uses.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import click

from viewer.commands import completion

EXAMPLES: Final = {
    "timeout": "a word: in the model, the text, the host, the path, a label, or at the beginning of the id",
    '"rate limit"': "a phrase",
    "model:gpt-*": "a text with a wildcard; case is ignored",
    "model:gpt-*,claude-* -is:ok": "any of several values; and not complete",
    "status>=400 or flag:stall": "one or the other; `and` binds closer, and may be left out",
    "(is:truncated or is:timeout) host:api.example.com": "parentheses",
    "ttft>800ms dur<10s": "durations have a unit",
    "gap:2s..5s": "any gap between output chunks of 2 to 5 s, ends included",
    "tok.out>1k tps<20.5": "numbers",
    "since:2h": "started within the last two hours; -2h is the same",
    "at:today until:14:00": "started today before 14:00, by the clock of this place; or write 2026-11-21T14:00Z",
    "label:run=a7 -label:retry": "a label with a value; no label of that name",
    "has:tool -has:usage": "with tool calls and without usage",
    "error~rate.?limit|quota": "a regular expression",
    "text!~\\bsorry\\b": "a text is known, and the expression is not found in it",
}
"""Filters that show what the language can do, and what they mean."""

TERMS: Final = {
    "FIELD:VALUE": "the field equals or matches VALUE; = is the same; VALUE,VALUE matches any of them",
    "FIELD!=VALUE": "the field is known and matches none of them",
    "FIELD>VALUE": "the field is greater; also >= < <=; FIELD:LOW..HIGH is a range, ends included",
    "FIELD~REGEX": "the regular expression matches in the field; FIELD!~REGEX: it is known, and nothing matches",
    "WORD": 'or "a phrase": occurs in the model, the text, the host, the path or a label, or begins the id',
    "-TERM": "or not TERM: all other exchanges, including those where the field is unknown",
    "TERM or TERM": "any of them; terms side by side, or with and, must all hold; ( ) groups",
}
"""The forms of a term, and what each selects."""

_KINDS: Final = {
    "text": "Texts",
    "label": "Labels",
    "has": "What is known",
    "time": "Times",
    "duration": "Durations",
    "gaps": "Gaps",
    "count": "Numbers",
    "rate": "Rates",
    "share": "Shares",
}


class Section(NamedTuple):
    """A part of a topic: its title, what it defines, and what is said before that."""

    title: str
    defined: list[tuple[str, str]]
    note: str = ""


@click.command("help")
@click.argument("topics", nargs=-1, metavar="[TOPIC|COMMAND]...", shell_complete=completion.topics)
@click.pass_context
def help_(context: click.Context, topics: tuple[str, ...]) -> None:
    """Explain filters, fields, outcomes, upstreams (help filters …), or a command (help ls)."""
    root = context.find_root()
    if not topics:
        click.echo(_overview(root))
    elif len(topics) == 1 and topics[0] in _SECTIONS:
        _print(_SECTIONS[topics[0]]())
    else:
        click.echo(_command(root, topics).get_help())


def _overview(root: click.Context) -> str:
    formatter = root.make_formatter()
    group = root.command
    assert isinstance(group, click.Group)
    with formatter.section("Topics, for wiretape help TOPIC"):
        formatter.write_dl(list(completion.TOPICS.items()))
    with formatter.section("Commands, for wiretape help COMMAND"):
        names = group.list_commands(root)
        formatter.write_dl([(name, group.commands[name].get_short_help_str(200)) for name in names])
    return formatter.getvalue().rstrip()


def _command(root: click.Context, path: tuple[str, ...]) -> click.Context:
    """Return the context of the command at a path such as `db upgrade`; raise a usage error if there is none."""
    context = root
    for name in path:
        group = context.command
        known = group.commands if isinstance(group, click.Group) else {}
        if name not in known:
            from viewer.filters.fields import closest_first

            choices = ", ".join(closest_first(name, [*(completion.TOPICS if context is root else ()), *known]))
            hint = f"choose from {choices}" if choices else f"{context.command_path} has no commands of its own"
            raise click.UsageError(f"there is no help on {' '.join(path)!r}: {hint}")
        context = click.Context(known[name], info_name=name, parent=context)
    return context


def _print(sections: Iterator[Section]) -> None:
    from viewer.commands import output

    formatter = click.HelpFormatter(width=min(output.width() or output.PLAIN_WIDTH, output.PLAIN_WIDTH))
    for section in sections:
        with formatter.section(section.title):
            if section.note:
                formatter.write_text(section.note)
            formatter.write_dl(section.defined)
    click.echo(formatter.getvalue().strip())


def _filters() -> Iterator[Section]:
    """Yield the parts of the language: terms, the values of each kind of field, and examples."""
    from viewer.filters.fields import CHOICES, DURATIONS
    from viewer.filters.values import EXPECTED

    yield Section("A filter is terms, all of which must hold", list(TERMS.items()))
    values = {"text": "as it is, or with * for anything; in quotes * is itself"}
    values |= {kind: text for kind, text in EXPECTED.items() if kind == "duration" or kind not in DURATIONS}
    yield Section("Values", list(values.items()))
    short = {"outcome": "is", "flags": "flag"}
    chosen = [(f"{short.get(name, name)}:", ", ".join(choices)) for name, choices in CHOICES.items()]
    yield Section("Fields that have certain values only", chosen)
    yield Section("Examples", list(EXAMPLES.items()))


def _fields() -> Iterator[Section]:
    """Yield the fields of each kind: their names, what they mean and their unit."""
    from viewer.export import fields
    from viewer.filters.fields import FIELDS, MEANINGS, others
    from viewer.filters.parser import operators
    from viewer.filters.values import EXPECTED

    for kind, title in _KINDS.items():
        own = [field for field in FIELDS.values() if field.kind == kind]
        meanings = fields.meanings(field.name for field in own if field.name not in MEANINGS) | MEANINGS
        expected = f" {EXPECTED[kind]}".replace(" a ", "; a value is a ", 1) if kind in EXPECTED else ""
        note = f"Operators: {' '.join(operators(own[0]))}{expected}."
        yield Section(
            title, [(", ".join([field.name, *others(field.name)]), meanings[field.name]) for field in own], note
        )


def _outcomes() -> Iterator[Section]:
    """Yield the outcomes with their details, and the flags."""
    from recorder.decode.outcome import DETAILS, FLAGS, OUTCOMES

    outcomes = {name: f"{meaning}: {', '.join(DETAILS[name])}" if name in DETAILS else meaning
                for name, meaning in OUTCOMES.items()}  # fmt: skip
    note = (
        "An exchange has one outcome, judged by what came; of these, the first that fits. Behind it stand its details."
    )
    yield Section("Outcomes", list(outcomes.items()), note)
    yield Section("Flags", sorted(FLAGS.items()), "An exchange has any number of flags.")


def _upstreams() -> Iterator[Section]:
    """Yield where the well-known APIs are served."""
    from recorder.relay.providers import WELL_KNOWN

    served = [(f"/{name}/…", url) for name, url in WELL_KNOWN.items()]
    yield Section(
        "Served at http://127.0.0.1:8377", served, "Others are named by --upstream URL or --upstream NAME=URL."
    )


_SECTIONS: Final[dict[str, Callable[[], Iterator[Section]]]] = {
    "filters": _filters, "fields": _fields, "outcomes": _outcomes, "upstreams": _upstreams,
}  # fmt: skip

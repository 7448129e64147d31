"""The generated parts of the README and of the topics: each function returns one, from the code that it documents."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING

import click
from textual.keys import format_key

import wiretape.viewer.cli
from tests.support.declared_wires import DECLARED_WIRES, DeclaredWire, event
from tests.support.decoding import derived
from tests.support.wires import COMPLETIONS, CORTEX, WIRES, Wire
from wiretape.recorder.decode.decoder import framing_of
from wiretape.recorder.decode.dialects import anthropic_sessions, openai_agents
from wiretape.recorder.decode.effects import EFFECTS
from wiretape.recorder.decode.exchange import DETAILS, OUTCOMES, Exchange, Read, Reads
from wiretape.recorder.decode.metrics import METRICS, Measures
from wiretape.recorder.relay import providers
from wiretape.recorder.relay.apis import APIS, PROGRAMS
from wiretape.viewer.commands.catalogue import EXAMPLES, SECTIONS, SUMMARIES, command_line
from wiretape.viewer.export import fields as export
from wiretape.viewer.query import fields as query
from wiretape.viewer.query import parser
from wiretape.viewer.query.operators import KINDS, OPERATORS
from wiretape.viewer.record import fields
from wiretape.viewer.report import dialects, tables
from wiretape.viewer.sessions import report as issue_report
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.conventions import LATEST, OPT_IN, OPT_IN_VALUE
from wiretape.viewer.stats.metrics import QUANTITIES, RATES
from wiretape.viewer.stats.tools.tools import AUTHORITIES
from wiretape.viewer.tui import bindings
from wiretape.viewer.wings.replay.comparing import LeftOut
from wiretape.viewer.wings.replay.forms import FORMS

if TYPE_CHECKING:
    from wiretape.recorder.relay import apis
    from wiretape.viewer.stats.conventions import Conventions

_WIRES = (*WIRES.values(), COMPLETIONS, CORTEX)
_READ = {
    "text": "content",
    "reasoning": "reasoning",
    "tool calls": "tool_calls",
    "usage": "output_tokens",
    "TTFT": "ttft_ns",
    "finish": "finish_reason",
}
"""The values read from a stream, and the measures that hold them."""


def actions() -> str:
    """Return the names of the viewer's actions, each with its keys."""
    texts = []
    known = bindings.by_name()
    screens = (bindings.APPLICATION, *bindings.SCREENS.values())
    for name in dict.fromkeys(action.name for actions in screens for action in actions):
        keys = ["enter" if key == "enter" else format_key(key) for key in known[name].keys.split(",")]
        texts.append(f"{name} {' '.join(f'`{key}`' for key in keys)}")
    return f"{', '.join(texts)}.\n"


def defined(meanings: Mapping[str, str]) -> str:
    """Return a list of names with their meanings."""
    return "".join(f"- `{name}`: {escaped(meaning)}\n" for name, meaning in meanings.items())


def escaped(text: str) -> str:
    """Return a text without the signs that Markdown takes for its own, outside of `code`."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"(?<!\\)([*<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def left_out(rows: Iterable[LeftOut]) -> str:
    """Return the table of what a comparison of requests leaves out."""
    lines = ["| left out | of | reason |", "|---|---|---|"]
    lines += [f"| {escaped(row.name)} | {row.owner} | {escaped(row.reason)} |" for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def operators() -> str:
    """Return the operators of filters."""
    operands = {"regex": "REGEX"}
    return defined({f"FIELD{sign}{operands.get(one.form, 'VALUE')}": one.meaning
                    for sign, one in OPERATORS.items() if one.meaning})  # fmt: skip


def values() -> str:
    """Return the syntax of the values of each kind of field."""
    kinds = {kind: KINDS[kind].expected for kind in ("duration", "count", "rate", "share", "time")}
    return defined({"text": "as it is, or with * for anything; in quotes * is itself", **kinds})


def choices() -> str:
    """Return the fields with a fixed set of values."""
    short = {"outcome": "is", "flags": "flag"}
    return "".join(f"- `{short.get(name, name)}:` {_names(choices)}\n" for name, choices in query.CHOICES.items())


@dataclass(frozen=True, slots=True)
class NameRow:
    """The names of a field, or of a pooled quantity; without a `heading` of its own, a list shows the name."""

    name: str
    heading: str
    aliases: tuple[str, ...]
    statistic: str
    unit: str
    meaning: str


def name_rows() -> list[NameRow]:
    """Return the names of all fields and pooled quantities."""
    headings = {name: heading for heading, name in tables.NAMED.items()}
    statistics = {fields.field_name(quantity.column or quantity.name): quantity for quantity in QUANTITIES.values()}
    sections = []
    for name in dict.fromkeys((*query.FIELDS, *statistics)):
        own, quantity = query.MEANINGS.get(name), statistics.get(name)
        field = export.exchange_field(name) if name in query.FIELDS and own is None else None
        pooled = quantity if quantity is not None and quantity.column is None else None
        meanings = (own, field and field.meaning, pooled and f"in statistics: {pooled.meaning}")
        unit = (field and field.unit) or (pooled and pooled.unit) or ""
        meaning, statistic = "; ".join(filter(None, meanings)), quantity.name if quantity is not None else ""
        sections.append(NameRow(name, headings.get(name, ""), tuple(query.aliases_of(name)), statistic, unit, meaning))
    return sections


def names() -> str:
    """Return the names of all fields by kind, with the operators of each kind, and those that only statistics have."""
    rows = {row.name: row for row in name_rows()}
    text = ""
    for kind, one in KINDS.items():
        kinds = [field for field in query.FIELDS.values() if field.kind == kind]
        expected = f" {one.expected}".replace(" a ", "; a value is a ", 1) if one.expected else ""
        text += f"## {one.title}\n\nOperators: {_names(parser.operators(kinds[0]))}{escaped(expected)}.\n\n"
        text += _table([rows.pop(field.name) for field in kinds])
    return f"{text}## Only in statistics\n\n{_table(rows.values())}" if rows else text


def _table(rows: Iterable[NameRow]) -> str:
    lines = ["| name | heading | aliases | statistic | unit | meaning |", "|---" * 6 + "|"]
    for row in rows:
        statistic = f"`{row.statistic}`" if row.statistic else ""
        cells = (f"`{row.name}`", row.heading, _names(row.aliases), statistic, row.unit, escaped(row.meaning))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"


def outcomes_with_details() -> str:
    """Return the outcomes, each with its details."""
    details = {name: f": {', '.join(DETAILS[name])}" if name in DETAILS else "" for name in OUTCOMES}
    return defined({name: meaning + details[name] for name, meaning in OUTCOMES.items()})


def served() -> str:
    """Return the paths of the well-known APIs at a recorder."""
    return defined({f"/{api.name}/…": api.url for api in APIS if api.url})


def pointed() -> str:
    """Return the variables that point programs at a recorder, by path."""
    places: dict[str, list[str]] = {}
    for variable, place in providers.sdk_bases("", providers.well_known()).items():
        places.setdefault(place, []).append(variable)
    return "".join(f"- `{place}` in {_names(names)}\n" for place, names in places.items())


def preset() -> str:
    """Return the variables that are replaced only where they are set, by API."""
    names = {
        api.name: [variable.name for variable in api.variables if variable.path is None or not api.url] for api in APIS
    }
    return "".join(f"- {name}: {_names(names_)}\n" for name, names_ in names.items() if names_)


def api_notes() -> str:
    """Return the notes on APIs."""
    return "".join(f"- {api.name}: {escaped(api.note)}\n" for api in APIS if api.note)


def programs() -> str:
    """Return the programs with special treatment, and its reason."""
    return defined({program.words: _treatment(program) for program in PROGRAMS})


def _treatment(program: "apis.Program") -> str:
    parts = [f"{', '.join(program.needs)} is set for it" if program.needs else ""]
    parts += [f"{', '.join(program.breaks)} is not set for it" if program.breaks else ""]
    parts += [f"{', '.join(program.listens)} is left as it is" if program.listens else ""]
    parts += [f"a refused WebSocket is answered {program.falls_back_on}" if program.falls_back_on else ""]
    return f"{', '.join(filter(None, parts))}: {program.reason}"


def hosts() -> str:
    """Return the intercepted hosts, by API."""
    return "".join(f"- {api.name}: {_names(api.hosts)}\n" for api in APIS if api.hosts)


def daemons() -> str:
    """Return the programs with a daemon, and the option that prevents it."""
    return defined({program.words: f"run starts it with `{program.no_daemon}`, if its help has that option"
                    for program in PROGRAMS if program.no_daemon})  # fmt: skip


def conventions(those: "Conventions") -> str:
    """Return a line that names the version of OpenTelemetry's conventions."""
    return f"The names are those of semconv v{those.version}.\n\n"


def opt_in() -> str:
    """Return the paragraph on the conventions that a user opts in to."""
    return (
        f"With `{OPT_IN}={OPT_IN_VALUE}`, the names of semantic-conventions-genai replace these, as of October 2026; "
        f"that repository has no release yet (schema {LATEST.version}). The variable is that of OpenTelemetry's SDKs, "
        "a list with commas; its other values change nothing here. Embeddings have only the duration. The "
        "`gen_ai.token.modality` of counters is unknown, since usage does not break tokens down by it.\n\n"
    )


def families(those: "Conventions") -> str:
    """Return the metrics of OpenTelemetry's conventions."""
    return defined({family.name: family.meaning for family in those.families})


def prometheus(those: "Conventions") -> str:
    """Return the metrics of OpenTelemetry's conventions under their names for Prometheus."""
    labels = {family: f"; label {family.label}" if family.label else "" for family in those.families}
    return defined({family.prometheus: family.prometheus_meaning + label for family, label in labels.items()})


_ELSEWHERE = {
    "ttft_ns": ("ttft", "ttft_s"), "ttfc_ns": ("time_to_first_chunk_s",), "ttfo_ns": ("ttfo", "ttfot"),
    "ttst_ns": ("ttst",), "duration_ns": ("operation_duration_s", "duration_s"),
    "latency_ns": ("e2el", "latency", "request_latency", "latency_s"),
    "tpot_ns": ("tpot", "per_token_s", "aiperf itl", "guidellm itl"),
    "tps_user": ("tps_user", "tps"), "output_tokens": ("output_tokens",),
    "icl": ("icl", "time_per_output_chunk_s", "vllm itl", "sglang itl"),
}  # fmt: skip
"""The keys of other tools for a metric; with the tool's name where they mean it in that tool only."""


def _elsewhere(name: str) -> str:
    keys = _ELSEWHERE.get(name, ())
    # A tool with two rules has the same names in both.
    rules = {rule.source: (tool, rule) for tool, rule in reversed(AUTHORITIES.items())}
    names = [f"{tool} `{metric.name}`" for tool, rule in reversed(rules.values())
             for metric in rule.metrics if metric.key in keys or f"{tool} {metric.key}" in keys]  # fmt: skip
    return f". Elsewhere: {', '.join(names)}" if names else ""


def metrics() -> str:
    """Return the metrics: synonyms, meaning, unit, and names in other tools."""
    text = ""
    for metric in METRICS.values():
        name = fields.field_name(metric.name)
        names = dict.fromkeys([name.removesuffix("_ms"), name, *query.aliases_of(name), metric.name])
        unit = {"ns": " (ms)", "": " (count)"}.get(metric.unit, f" ({metric.unit})")
        withheld = f". Withheld with the flags {_names(metric.withheld)}" if metric.withheld else ""
        text += f"- {_names(names)}: {escaped(metric.meaning)}{unit}{withheld}{_elsewhere(metric.name)}\n"
    pooled = [row for row in QUANTITIES.values() if row.column is None]
    return text + "".join(
        f"- {_names([row.name, *row.aliases])}: {row.meaning} ({row.unit}){_elsewhere(row.name)}\n" for row in pooled
    )


def rates() -> str:
    """Return the rates of a group."""
    meanings = summary.schema()
    return "".join(f"- `{name}`, `{name}_pct`: {meanings[f'{name}_pct']}\n" for name in RATES)


def catalogue() -> str:
    """Return the commands by section, each with its summary and its first example."""
    text = ""
    listed = {name for commands in SECTIONS.values() for name in commands}
    for title, commands in SECTIONS.items():
        text += f"## {title}\n\n"
        for name in commands:
            for path, (example, *_) in EXAMPLES.items():
                if path == name or (path.startswith(f"{name} ") and path not in listed):
                    summary = escaped(re.split(r": (?=wiretape |eval )", SUMMARIES[path])[0].rstrip("."))
                    text += f"- `wiretape {path}`: {summary}: `{command_line(example)}`\n"
        text += "\n"
    return text


def outcomes() -> str:
    """Return the outcomes in one line, each with when it is given."""
    return " · ".join(f"`{name}`: {meaning}" for name, meaning in OUTCOMES.items()) + "\n"


def report() -> str:
    """Return the keys of a report."""
    return defined(issue_report.schema())


def wires() -> str:
    """Return a table of the values read from the streams of each API, found by decoding one of each."""
    table = [f"| API | asked for at | framing | {' | '.join(_READ)} | truncation | error |"]
    table.append("|---" * (len(_READ) + 5) + "|")
    for api, found in groupby(_WIRES, lambda wire: wire.api):
        wires = list(found)
        path = wires[0].path.partition("?")[0]
        framings = " ".join(f"`{_framing(wire)}`" for wire in wires)
        is_read = [all(column) for column in zip(*map(_is_read, wires), strict=True)]
        table.append(
            f"| `{api}` | `{path}` | {framings} | {' | '.join('✓' if is_true else '–' for is_true in is_read)} |"
        )
    for api, declared in groupby(sorted(DECLARED_WIRES.values(), key=lambda one: one.api), lambda wire: wire.api):
        streams = list(declared)
        paths = " ".join(f"`{path}`" for path in dict.fromkeys(wire.path for wire in streams))
        is_read = [any(column) for column in zip(*map(_is_read_declared, streams), strict=True)]
        table.append(f"| `{api}` | {paths} | `sse` | {' | '.join('✓' if is_true else '–' for is_true in is_read)} |")
    return "\n".join(table) + "\n"


def agent_events() -> str:
    """Return a table of the events of hosted agents' sessions: each effect, and the types with it by API."""
    tables = {openai_agents.API: openai_agents.TABLE, anthropic_sessions.API: anthropic_sessions.TABLE}
    lines = [f"| an event | {' | '.join(f'`{api}`' for api in tables)} |", "|---" * (1 + len(tables)) + "|"]
    for name, meaning in (*EFFECTS.items(), ("", "changes no turn")):
        cells = [
            " ".join(f"`{kind}`" for kind, row in table.rows.items() if name in row.effects.split(", ")) or "–"
            for table in tables.values()
        ]
        lines.append(f"| {meaning} | {' | '.join(cells)} |".replace("`agent.session.", "`…"))
    sources = "; ".join(f"`{api}`: {table.source} ({table.date})" for api, table in tables.items())
    return "\n".join([*lines, "", f"Sources, and when they were read: {sources}."]) + "\n"


def _is_read_declared(wire: DeclaredWire) -> list[bool]:
    """Return True for each value that is read from a stream, for its truncation and for an error in its place."""
    cut = wire.events[: wire.cut]
    whole_measures, truncated, failed = (
        derived(b"".join(parts), path=wire.path, request=wire.request, headers=wire.headers)
        for parts in ((*wire.events, *wire.ending), cut, (*cut, wire.failure[0]))
    )
    is_read = [
        whole_measures.outcome == "complete" and getattr(whole_measures, name) is not None for name in _READ.values()
    ]
    return [*is_read, truncated.outcome == "truncated", failed.outcome == "error_event"]


_STREAM = (
    {"kind": "begin", "run": "r1", "model": "own-1"},
    {"kind": "part", "value": "Let me "},
    {"kind": "part", "value": "see."},
    {"kind": "last", "why": "stop", "counts": {"in": 12, "out": 4}},
)
_DECLARATION = """\
[[dialects]]
name = "own"
match = { path = "/v2/parts" }
key = "kind"
text = { on = "part", at = "value" }
model = { on = "begin", at = "model" }
usage = { on = "last", input = "counts.in", output = "counts.out" }
finish = { on = "last", at = "why" }
error = { on = "failed", code = "no", message = "text" }
end = { on = "last" }
"""


def dialect_stream() -> str:
    """Return the stream of the example of a declaration."""
    return f"```\n{b''.join(map(event, _STREAM)).decode().rstrip()}\n```\n"


def dialect_file() -> str:
    """Return the declaration of the example."""
    return f"```toml\n{_DECLARATION}```\n"


def dialect_trial() -> str:
    """Return the output of `wiretape dialect try` for the example."""
    body = b"".join(map(event, _STREAM))
    ends = list(accumulate(len(event(event_size)) for event_size in _STREAM))
    reads = [
        Read(seq, (120 + 40 * seq) * 1_000_000, None, start, end - start)
        for seq, (start, end) in enumerate(pairwise([0, *ends]))
    ]
    facts = Exchange(
        status=200,
        content_type="text/event-stream",
        ended_by="end",
        headers_ns=0,
        end_ns=241_000_000,
        path="/v2/parts",
        framing="chunked",
    )
    trial = dialects.trial(facts, Reads.of(reads), body, tomllib.loads(_DECLARATION)["dialects"])
    return "```\n" + "\n".join(dialects.lines(trial, 40)) + "\n```\n"


def _framing(wire: Wire) -> str:
    exchange = Exchange(status=200, content_type=wire.type, ended_by="end", path=wire.path)
    return framing_of(exchange, b"".join(wire.parts))


def _is_read(wire: Wire) -> list[bool]:
    """Return True for each value that is read from a stream, for its truncation and for an error at its end."""
    whole_measures = _derived(wire, wire.parts)
    cut = wire.parts[: len(wire.parts) // 2]
    truncated, failed = _derived(wire, cut), _derived(wire, (*cut, wire.error))
    is_read = [
        whole_measures.outcome == "complete" and getattr(whole_measures, name) is not None for name in _READ.values()
    ]
    return [*is_read, truncated.outcome == "truncated", failed.outcome == "error_event"]


def _derived(wire: Wire, parts: tuple[bytes, ...]) -> Measures:
    cuts = list(accumulate(map(len, parts)))[:-1]
    request = b'{"parameters":{"incremental_output":true}}'
    return derived(b"".join(parts), *cuts, content_type=wire.type, path=wire.path, request=request)


def forms() -> str:
    """Return the table of the forms of an answer."""
    rows = ["| form | kind | what it does | allowed by | for |", "|---|---|---|---|---|"]
    for name, form in FORMS.items():
        label = {"ping": "ping:TIME", "byte": "byte`, `N"}.get(name, name)
        meaning = form.meaning if name != "byte" else "one byte a write, or N bytes"
        framings = "HTTP" if "gRPC" in form.framings else ", ".join(form.framings) or "all"
        rows.append(f"| `{label}` | {form.kind or '–'} | {meaning} | {form.clause or '–'} | {framings} |")
    return "\n".join(rows) + "\n"


def commands() -> str:
    """Return the names of all commands, in one line."""
    names = [
        f"`{name} {'|'.join(command.commands)}`" if isinstance(command, click.Group) else f"`{name}`"
        for name, command in sorted(wiretape.viewer.cli.group.commands.items())
    ]
    return " · ".join(names) + "\n"

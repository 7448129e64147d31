"""The tools of `wiretape mcp`: each runs a command in this process and returns a page of its output.

Loaded with the server only. A tool's docstring is its description for agents, and paid for in each of their sessions.
"""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from wiretape.recorder import paths
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.recorder.tape.peek import explained
from wiretape.viewer import config
from wiretape.viewer.commands import options, output
from wiretape.viewer.commands.compare import compare
from wiretape.viewer.commands.ls import ls
from wiretape.viewer.commands.report import report
from wiretape.viewer.commands.show import brief, show
from wiretape.viewer.commands.stats import stats
from wiretape.viewer.commands.timeouts import timeouts
from wiretape.viewer.export import fields
from wiretape.viewer.query.fields import FIELDS, NAMES
from wiretape.viewer.query.syntax import And, Labelled, Not, Or, Word
from wiretape.viewer.record.fields import HEADER_FIELDS
from wiretape.viewer.report import answers, tables
from wiretape.viewer.source import sql
from wiretape.viewer.source.base import Selection, Unsupported, names_session
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.query_process import QueryProcess

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.source.base import Place
    from wiretape.viewer.source.tape_source import TapeSource

NEWEST: Final = 10_000
"""Number of exchanges that statistics cover unless a call asks for more: their time grows with it."""
COMPARED: Final = 5_000
"""The same, of each of two groups."""
MOST_ROWS: Final = 200
"""Most rows of an answer."""
DEEPEST: Final = 10_000
"""The highest offset in lists, whose time grows with it, too."""

_COLUMNS: Final = (
    "id,started_at,model,status,outcome,ttft_ms,max_gap_ms,duration_ms,input_tokens,output_tokens,error_code,flags"
)
_TEXTS: Final = frozenset({
    "content", "reasoning", "refusal", "tool_calls", "tool_arguments", "choices", "asked", "newly_asked", "data",
    "attributes", "delta", "before", "after", "request_body", "error_message",
})  # fmt: skip
"""Fields of rows that hold words of prompts or answers, as the message of an error may quote a prompt."""
_PARTS: Final = ("summary", "facts", "timing", "events", "reads", "context", "time")
_PARTS_OF_TEXT: Final = ("text", "conversation", "request")
_WITH_TEXT: Final = "the server was started without --with-text"
_VIEW_COLUMN: Final = re.compile(r"^\s.*?\bAS (\w+),? +-- (.*)$", re.MULTILINE)


class KeptTape(TapePlace):
    """A tape that stays open between calls, so that the links of its conversations are read only once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._cleanup = contextlib.ExitStack()
        self._source: TapeSource | None = None
        self._file_state: _FileState | None = None

    @contextlib.contextmanager
    def opened(self) -> "Iterator[TapeSource]":
        """Open the tape, or continue with it; open it again if it was replaced, is damaged or failed."""
        state = _file_state(self.file)
        if self._source is None or state != self._file_state:
            self._cleanup.close()
            self._source, self._file_state = self._cleanup.enter_context(super().opened()), state
        is_sound = False
        try:
            with explained(self.file):
                yield self._source
            is_sound = self._source.is_sound
        except (NotFound, Unsupported, click.UsageError):
            is_sound = True
            raise
        finally:
            if not is_sound:
                self._source = None
                self._cleanup.close()  # it reports damage


@dataclass(slots=True)
class TapeTools:
    """Questions about a tape or a server, answered in at most `room` bytes; texts only if `texts`."""

    place: "Place"
    texts: bool
    room: int
    queries: QueryProcess = field(default_factory=QueryProcess)
    _last_run: tuple[object, str, list[str]] | None = None

    def all(self) -> list[Callable[..., str]]:
        asking: list[Callable[..., str]] = [self.find, self.show, self.stats, self.compare, self.sessions, self.report]
        return [*asking, self.schema, self.sql]

    def load(self) -> None:
        """Load libraries and the links of sessions, and start the process of `sql`, so that no call waits for them."""
        if self.place.file is not None:
            self.queries.start()
        import wiretape.viewer.report.comparison
        import wiretape.viewer.report.digest
        import wiretape.viewer.stats.compare  # noqa: F401

        with contextlib.suppress(WiretapeError, click.ClickException):
            with self.place.opened() as source:
                source.failures(Selection(numbers=()))  # loads the statements of statistics
            self.find(limit=1)
            self.sessions(limit=1)
            self.show()

    def find(self, filter: str = "", columns: str = "", sort: str = "", limit: int = 20, offset: int = 0) -> str:
        """List exchanges (requests to LLM APIs with their answers), the newest first.

        filter: terms such as `is:err`, `ttft>800ms`, `model:gpt-*`, `flag:stall`, `status:429`, `label:run=a`,
        `since:2h`, `conversation:KEY`; a space is "and", also `or`, `-term`. sort: a field, `-ttft` for the largest
        first. columns: fields, comma-separated, such as id,cache_verdict,cache_broken_at; schema(table="fields") lists
        all.
        """
        self._check_filter(filter)
        limit, offset = _bounded(limit), _reachable(offset)
        arguments = ["--format=jsonl", f"--limit={offset + limit + 1}", f"--columns={columns or _COLUMNS}"]
        arguments += [f"--filter={filter}"] * bool(filter) + [f"--sort={sort}"] * bool(sort)
        self._check_columns(columns.split(","))
        order = options.read_sort(sort or None)  # the order of texts tells of them
        if order is not None and order[0] in _TEXTS and not self.texts:
            raise WiretapeError(f"{sort.removeprefix('-')}: text of prompts and answers; {_WITH_TEXT}")
        return self._table(*self._run(ls, *arguments), offset, limit)

    def show(self, id: str = "@", part: str = "summary", offset: int = 0) -> str:
        """Show one exchange: its id, or its beginning; @ newest, @-1 the one before, @err, @stall, @slow. Or a session:
        s:KEY, @s newest.

        part: summary (how it ended, who was slow, why the cache missed; of a session, where its time went), facts (all
        figures), timing (each stall and its cause), context (bytes of the prompt by source), headers (redacted),
        events, reads; time (of a session: a row per turn); text, conversation, request if the server gives texts.
        """
        self.place.require("bodies", "show")
        if part != "summary":
            return self._part(id, part, offset)
        if names_session(id):
            return self._fields(id, part, offset)
        with output.opened(self.place) as source:
            exchange = source.exchange(source.find(id))
            lines = [line.plain for line in brief(exchange, config.thresholds({}), with_error=self.texts)]
        return answers.text(lines, offset, self.room, [])

    def stats(
        self, filter: str = "", by: str = "", columns: str = "", newest: int = NEWEST, part: str = "figures",
        offset: int = 0,
    ) -> str:  # fmt: skip
        """Count and time exchanges: outcomes, TTFT, gaps, latency, tokens, rates.

        by: groups such as model, upstream, operation, status, outcome, day, hour, turn, input_tokens:10k, label.KEY.
        columns: fields such as `n,error_rate_pct,ttft_p95_ms,latency_p50_ms,input_tokens`. Covers the tape's `newest`
        exchanges, 0: all (slower). part: figures, or timeouts: which timeout fits, by one group.
        """
        if part not in ("figures", "timeouts"):
            raise WiretapeError(f"no part {part!r}: choose from figures, timeouts")
        self._check_filter(filter)
        self._check_columns(columns.split(","))
        terms, notes = self._recent(newest)
        arguments = [f"--filter={text}" for text in (filter, terms) if text] + [f"--by={by}"] * bool(by)
        command = timeouts if part == "timeouts" else stats
        if columns:
            names = f"{by},{columns}" if by and command is stats else columns
            text, more = self._run(command, *arguments, f"--columns={names}", "--format=jsonl")
            return self._table(text, more + notes, offset)
        text, more = self._run(command, *arguments, "--format=table")
        return answers.text(text.splitlines(), offset, self.room, more + notes)

    def compare(
        self, a: str = "", b: str = "", part: str = "figures", base: str = "", new: str = "", newest: int = COMPARED,
        offset: int = 0,
    ) -> str:  # fmt: skip
        """Compare two exchanges or sessions (ids a and b), or two groups (filters base and new) with intervals.

        part: figures, or request: which tools, messages, … of two requests differ. Groups cover the `newest` exchanges
        of each, 0: all (slower).
        """
        ids = [id for id in (a, b) if id]
        if part != "figures":
            text, notes = self._run(compare, f"--part={part}", "--format=jsonl", ids=ids)
            return self._table(text, notes, offset, hidden=("a", "b"))  # the texts of two requests
        if ids:
            text, notes = self._run(compare, "--format=table", ids=ids)
            return answers.text(text.splitlines(), offset, self.room, notes)
        if not (base and new):
            raise WiretapeError("name two exchanges, a and b, or two groups by filters, base and new")
        sides, notes = [], list[str]()
        for option, expression in (("--base", base), ("--new", new)):
            self._check_filter(expression)
            terms, more = self._recent(newest, expression)
            sides.append(f"{option}=({expression}) {terms}" if terms else f"{option}={expression}")
            notes += [f"{option}: {note}" for note in more]
        text, more = self._run(compare, *sides, "--format=table")
        return answers.text(text.splitlines(), offset, self.room, more + notes)

    def sessions(self, filter: str = "", limit: int = 20, offset: int = 0) -> str:
        """List sessions of agents (conversations with their sub-agents) with totals and the parts of their time, the
        newest first. show and report name one by s: and its conversation.
        """
        self._check_filter(filter)
        limit, offset = _bounded(limit), _reachable(offset)
        arguments = ["--by=conversation", "--format=jsonl", f"--limit={offset + limit + 1}"]
        text, notes = self._run(ls, *arguments, *[f"--filter={filter}"] * bool(filter))
        return self._table(text, notes, offset, limit)

    def report(self, id: str = "", filter: str = "", newest: int = NEWEST, offset: int = 0) -> str:
        """Report on an exchange (@ unless given), a session (s:KEY, @s) or a filter, as Markdown for an issue.

        Verdict with evidence, times, request ids, and the command that writes the file to attach. A filter covers its
        `newest` matches, 0: all (slower).
        """
        self.place.require("bodies", "report")
        self._check_filter(filter)
        terms, notes = self._recent(newest, filter) if filter else ("", [])
        arguments = ["--with-text"] * self.texts + [f"--filter={text}" for text in (filter, terms) if text]
        text, more = self._run(report, *arguments, ids=[id] * bool(id))
        return answers.text(text.splitlines(), offset, self.room, more + notes)

    def schema(self, table: str = "", offset: int = 0) -> str:
        """List the tape's tables and views for sql, or the columns of one; "fields": the fields of find and filters."""
        if not table:
            rows_of_tables = [[name, meaning] for name, meaning in _tables().items()]
            return answers.table(("table", "meaning"), rows_of_tables[offset:], offset, self.room, [], more=False)
        columns, rows = _columns(table, self.texts)
        return answers.table(columns, rows[offset:], offset, self.room, [], more=False)

    def sql(self, query: str, limit: int = 100, offset: int = 0) -> str:
        """Answer one query (SELECT) of SQLite on the tape, read only, within 1 s and 100 rows.

        Begin with exchange_metrics: a row per exchange, times in ms (schema lists its columns). Blobs are sizes.
        """
        if self.place.file is None:
            raise Unsupported("sql: only a tape can do this: copy to one with 'wiretape pull'")
        most = _reachable(offset) + _bounded(limit)
        answer = self.queries.answer(self.place.file, query, most, texts=self.texts)
        notes = [f"withheld, not unknown: {', '.join(answer.withheld)}; {_WITH_TEXT}"] * bool(answer.withheld)
        return answers.table(answer.columns, answer.rows[offset:], offset, self.room, notes, more=answer.is_cut)

    def _part(self, id: str, part: str, offset: int) -> str:
        offered = next(getattr(choice.type, "choices", ()) for choice in show.params if choice.name == "part")
        parts = [choice for choice in _PARTS if choice in offered] + [*_PARTS_OF_TEXT] * self.texts
        if part in _PARTS_OF_TEXT and not self.texts:
            raise WiretapeError(f"part {part} is text: {_WITH_TEXT}")
        if part not in (*parts, "headers"):
            raise WiretapeError(f"no part {part!r}: choose from headers, {', '.join(parts)}")
        if part in _PARTS_OF_TEXT:
            text, notes = self._run(show, f"--part={part}", "--format=table", ids=[id])
            return answers.text(text.splitlines(), offset, self.room, notes)
        if part not in ("facts", "headers"):
            return self._table(*self._run(show, f"--part={part}", "--format=jsonl", ids=[id]), offset)
        if part == "facts":
            return self._fields(id, part, offset)
        text, notes = self._run(show, "--part=facts", "--format=json", ids=[id])
        facts: TableRow = json.loads(text)
        rows = [[name.removesuffix("_headers"), *header] for name in HEADER_FIELDS for header in facts[name] or ()]
        return answers.table(("of", "name", "value"), rows[offset:], offset, self.room, notes, more=False)

    def _fields(self, id: str, part: str, offset: int) -> str:
        text, notes = self._run(show, f"--part={part}", "--format=json", ids=[id])
        fields = [[name, value] for name, value in self._visible(json.loads(text)).items()]
        rows = [row for row in fields if row[1] is not None and row[0] not in HEADER_FIELDS]
        return answers.table(("field", "value"), rows[offset:], offset, self.room, notes, more=False)

    def _table(
        self, text: str, notes: list[str], offset: int, limit: int | None = None, hidden: Sequence[str] = ()
    ) -> str:
        """Return a page of rows in JSON Lines, from `offset` on; columns `hidden` only with texts."""
        lines = text.splitlines()[offset:]
        rows = [self._visible(json.loads(line)) for line in lines[: MOST_ROWS if limit is None else limit]]
        columns = [name for name in rows[0] if self.texts or name not in hidden] if rows else []
        cells = [[row[name] for name in columns] for row in rows]
        return answers.table(columns, cells, offset, self.room, notes, more=len(lines) > len(rows))

    def _visible(self, row: "TableRow") -> "TableRow":
        return row if self.texts else {name: value for name, value in row.items() if name not in _TEXTS}

    def _check_columns(self, names: Sequence[str]) -> None:
        """Raise `WiretapeError` for a column of text, if there are none, and for a list of columns."""
        if "help" in names:
            raise WiretapeError('help is no column: schema lists those of find, table="fields"')
        withheld = {name.strip() for name in names if NAMES.get(name.strip(), name.strip()) in _TEXTS}
        if withheld and not self.texts:
            raise WiretapeError(f"{', '.join(sorted(withheld))}: text of prompts and answers; {_WITH_TEXT}")

    def _check_filter(self, text: str) -> None:
        """Raise `WiretapeError` for a filter that searches texts, if there are none: its matches would tell them."""
        filter = options.read([text]) if text and not self.texts else None
        if filter is not None and (withheld := next(_searches(filter), None)):
            raise WiretapeError(f"{withheld} searches prompts or answers: name a field, as error_code:x; {_WITH_TEXT}")

    def _recent(self, newest: int, filter: str = "") -> tuple[str, list[str]]:
        """Return the terms for the newest matches, as times, and a note; nothing if there are no others."""
        if newest <= 0 or self.place.file is None:
            return "", []
        with output.opened(self.place) as source:
            filter_terms = options.read([filter]) if filter else None
            numbers = source.numbers(Selection(filter_terms), min(newest, sys.maxsize - 1) + 1)
            if len(numbers) <= newest:
                return "", []
            ends = source.rows(("started_at",), Selection(numbers=(numbers[newest - 1], numbers[0])))
            first_started, last_started = (row["started_at"] for row in ends)
        note = f"covers the newest {newest:,} only, from {first_started} to {last_started}; newest=0 covers all"
        return f"started_at>={first_started} started_at<={last_started}", [note]

    def _run(self, command: click.Command, *options: str, ids: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Run a command; return its output, and its messages. The last output is kept until the tape changes."""
        words = [*options, *(["--", *ids] if ids else [])]
        key = (command.name, words, _version(self.place))
        if self._last_run is None or self._last_run[0] != key or self.place.file is None:
            data, err = io.BytesIO(), io.StringIO()
            out = io.TextIOWrapper(data, "utf-8")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                name = f"wiretape {command.name}"
                command.main(words, prog_name=name, standalone_mode=False, default_map={"db": self.place})
            out.flush()
            notes = [line.removeprefix("wiretape: ") for line in err.getvalue().splitlines()]
            self._last_run = (key, *(data.getvalue().decode("utf-8", "replace"), notes))
        return self._last_run[1], list(self._last_run[2])


def _bounded(limit: int) -> int:
    return min(max(limit, 1), MOST_ROWS)


def _reachable(offset: int) -> int:
    if not 0 <= offset <= DEEPEST:
        raise WiretapeError(f"offset {offset} is not in 0 to {DEEPEST:,}: go on with a filter such as until:TIME")
    return offset


class _FileState(NamedTuple):
    """The identity of a tape's file; `has_log`: SQLite's log stands beside it."""

    inode: int
    has_log: bool


def _file_state(path: Path) -> _FileState | None:
    try:
        return _FileState(path.stat().st_ino, paths.exists(f"{path}-wal"))
    except OSError:
        return None


def _version(place: "Place") -> list[object]:
    """Return the state of a tape's files, which differs after each write."""
    state = list[object]()
    for path in [f"{place.file}", f"{place.file}-wal"] if place.file else []:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            state += [status.st_ino, status.st_size, status.st_mtime_ns]
    return state


def _searches(filter: "Filter") -> Iterator[str]:
    """Yield the terms of a filter that search the words of prompts or answers."""
    match filter:
        case And() | Or():
            for part in filter.parts:
                yield from _searches(part)
        case Not():
            yield from _searches(filter.part)
        case Word():
            yield str(filter)
        case Labelled():
            return
        case _:
            if filter.field != "has" and _TEXTS & set(FIELDS[filter.field].rows):
                yield str(filter)


def _tables() -> dict[str, str]:
    from wiretape.recorder.tape import schema

    meanings = {schema.METRICS_VIEW: "a row per exchange, times in ms", "fields": "fields of find, and of filters"}
    meanings |= {view.name: str(view.comment) for view in (schema.reads, schema.read_gaps, schema.turns)}
    return meanings | {table.name: str(table.comment) for table in schema.metadata.sorted_tables}


def _columns(table: str, texts: bool) -> tuple[Sequence[str], list[list[Any]]]:
    """Return the columns of a table with their meanings, and the heading of these rows."""
    from wiretape.recorder.tape import schema

    tables_by_name = {
        table_or_column.name: table_or_column
        for table_or_column in (*schema.metadata.sorted_tables, schema.reads, schema.read_gaps, schema.turns)
    }
    if table == "fields":
        meanings = fields.meanings(tables.COLUMNS)
        return ("field", "meaning"), [[name, text] for name, text in meanings.items() if texts or name not in _TEXTS]
    if table == schema.METRICS_VIEW:
        view = next(iter(schema.views()))
        return ("column", "meaning"), [list(match.groups()) for match in _VIEW_COLUMN.finditer(view)]
    if table not in tables_by_name:
        raise WiretapeError(f"no table {table!r}: choose from {', '.join(_tables())}")
    columns = tables_by_name[table].c
    rows = [
        [
            table_or_column.name,
            str(table_or_column.type),
            schema.meaning(table_or_column),
            sql.is_open(table_or_column, texts),
        ]
        for table_or_column in columns
    ]
    return ("column", "type", "meaning", "open"), rows

"""Rows as bytes: CSV, TSV, JSON Lines and JSON, written as they come, so that memory does not grow with the tape.

CSV follows RFC 4180 (CRLF, UTF-8, no mark unless asked for; quotes only where needed). A text that a spreadsheet would
take for a formula gets a leading `'`, as OWASP's ASVS 1.2.10 asks; numbers never do. Spreadsheets separate cells at
semicolons and tabs, too: a text with one is quoted, and a formula behind one gets its `'` as well. In TSV, tab, line
feed, carriage return and backslash are written as `\\t`, `\\n`, `\\r` and `\\\\`, so that a line is a row and `cut`
works; a text is quoted only if it begins with a quotation mark: nearly all readers would take that for a quote. JSON is
exact. A lone surrogate, which UTF-8 has no bytes for, is written as its escape in all of them. Numbers are rounded to
the nanosecond, to six decimals (of seconds nine); costs are exact. Booleans are `true` and `false`. In CSV, TSV and
Markdown, flags and labels are words with a space in between: `no_usage stall`, `run=a7 step=2`. Rows that are not
`exact` may reach a terminal, if only through `head`: cells of CSV and TSV pass `safe`, in JSON what `safe` would change
is escaped. Markdown is for people: its texts pass `safe` and have no markup. Which rows there are is left to a source.
"""

import csv
import functools
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple

import msgspec

from wiretape.recorder.sanitize import safe
from wiretape.viewer.record import chunks
from wiretape.viewer.record.cells import DECIMALS, rounded, words
from wiretape.viewer.record.chunks import Chunks
from wiretape.viewer.record.fields import (
    CHUNK_FIELDS,
    CONVERSATION_FIELDS,
    FIELDS,
    PART_FIELDS,
    READ_FIELDS,
    TEXT_FIELDS,
    TURN_ROW_FIELDS,
    is_rounded,
)
from wiretape.viewer.record.rows import Exchanges, TableRow
from wiretape.viewer.record.units import EXACT, ms

if TYPE_CHECKING:
    from wiretape.recorder.decode.decoder import Decoded

Format = Literal["csv", "tsv", "jsonl", "json", "markdown"]
Texts = Callable[[Sequence[Any]], Sequence[str]]
Shown = Callable[[str], str]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0")
_LINE_ENDS = ("\x85", "\u2028", "\u2029")
_TSV = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_TO_ESCAPE = re.compile(r"[\\\t\n\r]").search
_ESCAPED_IN_LINES = '\\\t\r"'
_MARKUP = re.compile(r"[\\`*\[\]<>|~&@$]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.")
_ESCAPED = r"\\\g<0>"
_QUOTE = '"'
_TO_QUOTE = re.compile(r'[",\r\n;\t]').search
_UNQUOTED = re.compile(r'[^",\r\n=+\-@\t\0;][^",\r\n;\t]*+').fullmatch
_INNER_FORMULA = re.compile(r'(?<=[;\t])(?="*[=+\-@\t\r\n\0])')
"""The position of a formula behind a separator of some spreadsheet; quotation marks before it do not disarm it."""
_ASIS = frozenset({NoneType, int, float, str})
_ASIS_THERE = _ASIS - {str}
_NONE = ()
_TEXT = frozenset({NoneType, str})
_TRUTH = frozenset({NoneType, bool})
_TRUTHS = {None: "", False: "false", True: "true"}
_QUOTED_IN_LINES = '",\r;\t'
_MARK: Final = "\ufeff"
"""The mark at the beginning of UTF-8, without which Excel takes a file for one of the system's old encoding."""
_GUARDED_LINE = re.compile(r"\n[=+\-@\t\0]").search
_FLUSH = 1 << 16
_FIRST: Final = CHUNK_FIELDS.index("event") + 1
_ORDINARY: Final = re.compile(r"[ \w][ \w.:!?'()—-]*+").fullmatch
"""Match of a text that needs no quotes or escapes in CSV."""

TABLES: Final[dict[str, tuple[str, ...]]] = {
    "exchanges": FIELDS,
    "texts": FIELDS + TEXT_FIELDS,
    "chunks": CHUNK_FIELDS,
    "reads": ("id", *READ_FIELDS),
    "turns": TURN_ROW_FIELDS,
    "conversations": CONVERSATION_FIELDS,
}
"""The fields of each exported table."""


def write(
    out: BinaryIO,
    format: Format,
    fields: Sequence[str],
    entries: Iterable[TableRow],
    *,
    raw_csv: bool = False,
    terminal: bool = False,
    exact: bool = True,
    header: bool = True,
    mark: bool = False,
) -> int:
    """Write rows in a format, and return their count. `raw_csv` leaves texts that look like formulas unchanged.

    On a `terminal`, no row is `exact`. With `header`, CSV and TSV begin with the names of the fields; with `mark`, with
    the mark of UTF-8 before these.
    """
    is_safe = terminal or not exact
    ending: tuple[str, Shown | None] = ("\n", safe) if terminal else ("\r\n", None if exact else _safe_lines)
    if mark:
        out.write(_encoded(_MARK))
    match format:
        case "csv":
            return _write_csv(out, fields, entries, _Csv(*ending, raw_csv), header)
        case "tsv":
            return _write_tsv(out, fields, entries, is_safe, header)
        case "jsonl":
            return _write_text(out, (f"{_json(row, is_safe)}\n" for row in _rounded(fields, entries)))
        case "json":
            out.write(b"[")
            records = enumerate(_rounded(fields, entries))
            count = _write_text(out, (f"{',' if at else ''}\n{_json(row, is_safe)}" for at, row in records))
            out.write(b"\n]\n")
            return count
        case "markdown":
            out.write(_encoded(f"{_markdown(fields)}{_markdown(['---'] * len(fields))}"))
            rounded_rows = _rounded(fields, entries)
            return _write_text(out, (_markdown([row[field] for field in fields]) for row in rounded_rows))


def write_object(out: BinaryIO, row: TableRow) -> None:
    out.write(_encoded(_json(rounded(row, filter(is_rounded, row)), is_safe=True, indent=2) + "\n"))


def guarded(text: str) -> str:
    """Prefix each formula in a text with `'`, as a spreadsheet would compute it."""
    text = f"'{text}" if text.startswith(_FORMULA) else text
    return _INNER_FORMULA.sub("'", text) if ";" in text or "\t" in text else text


def _rounded(fields: Sequence[str], entries: Iterable[TableRow]) -> Iterator[TableRow]:
    names = [field for field in fields if is_rounded(field)]
    return (rounded(row, names) for row in entries) if names else iter(entries)


class _Csv(NamedTuple):
    """The variant of CSV: its line end, the function that makes texts safe, if any, and whether formulas are `raw`."""

    end: str
    shown: Shown | None
    raw: bool


def _write_csv(out: BinaryIO, fields: Sequence[str], entries: Iterable[TableRow], form: _Csv, header: bool) -> int:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator=form.end)
    if header:
        writer.writerow(fields)
    if isinstance(entries, Chunks) and tuple(fields) == CHUNK_FIELDS and form.shown is None:
        _drain(buffer, out)
        return _write_lines(out, entries, form)
    if isinstance(entries, Exchanges) and tuple(fields) == entries.fields and len(fields) > 1:
        _drain(buffer, out)
        return _write_columns(out, entries, ",", form.end, functools.partial(_csv_texts, form=form))
    count = 0
    for row in _rounded(fields, entries):
        cells = _cells([row[field] for field in fields], form)
        if any(type(cell) is str and (";" in cell or "\t" in cell) for cell in cells):  # `csv` would not quote them
            buffer.write(",".join("" if cell is None else _in_quotes(str(cell)) for cell in cells) + form.end)
        else:
            writer.writerow(cells)
        count += 1
        if buffer.tell() > _FLUSH:
            _drain(buffer, out)
    _drain(buffer, out)
    return count


def _write_columns(out: BinaryIO, exchanges: Exchanges, separator: str, end: str, texts: Texts) -> int:
    """Write exchanges a batch at a time, column by column: most columns need no conversion for each cell."""
    count = 0
    for batch in exchanges.batches:
        _, *columns = zip(*batch, strict=True)
        cells = map(_column, exchanges.fields, columns, itertools.repeat(texts))
        out.write(_encoded(end.join(map(separator.join, zip(*cells, strict=True))) + end))
        count += len(batch)
    return count


def _column(field: str, values: Sequence[Any], texts: Texts) -> Sequence[str]:
    """Write a column's values as the cells of them; `texts` writes those of a column that is not all numbers."""
    if field.endswith("_ms"):
        return milliseconds(values)
    if field == "flags":
        values = [" ".join((flags or "").split()) for flags in values]
    kinds = set(map(type, values))
    if float in kinds and is_rounded(field):
        values = [round(cell, DECIMALS) if type(cell) is float else cell for cell in values]
    if kinds <= _ASIS_THERE:
        return ["" if cell is None else str(cell) for cell in values]
    if kinds <= _TRUTH:
        return [_TRUTHS[cell] for cell in values]
    if field == "labels":
        values = [*map(_label_words, values)]
    return texts(values)


@functools.lru_cache(maxsize=1024)  # labels are the same in many exchanges
def _label_words(labels: str) -> Any:
    return words(json.loads(labels))


def _csv_texts(values: Sequence[Any], form: _Csv) -> Sequence[str]:
    """Write a column's values as `csv.writer` writes the cells of them."""
    return _texts(values, _QUOTED_IN_LINES, functools.partial(_quoted, form=form), is_safe=form.shown is not None)


def _tsv_texts(values: Sequence[Any], is_safe: bool) -> Sequence[str]:
    """Write a column's values as `_unquoted` does."""
    return _texts(values, _ESCAPED_IN_LINES, functools.partial(_unquoted, is_safe=is_safe), is_safe=is_safe)


def _texts(values: Sequence[Any], special: str, cell: Callable[[Any], str], *, is_safe: bool) -> Sequence[str]:
    """Write a column's values with `cell`, unless all are texts of one line without a `special` sign or a formula.

    If they have to be safe, all of them are ASCII that can be printed, too.
    """
    if not set(map(type, values)) <= _TEXT:
        return [*map(cell, values)]
    texts = ["" if text is None else text for text in values]
    lines = "\n".join(texts)
    is_ordinary = lines.count("\n") == len(texts) - 1 and not any(sign in lines for sign in special)
    if is_safe and is_ordinary:
        joined = "".join(texts)
        is_ordinary = joined.isascii() and joined.isprintable()
    if is_ordinary and not _GUARDED_LINE(f"\n{lines}"):  # which is searched for a single sign: that is fast
        return texts
    cells = {text: cell(text) for text in set(texts)}  # often few distinct ones, such as labels
    return [*map(cells.__getitem__, texts)]


def _cells(values: Iterable[Any], form: _Csv) -> list[Any]:
    # Nearly every cell is written as it is; a call for each would take as long as all the rest.
    asis, marks = _ASIS if form.shown is None else _ASIS_THERE, _NONE if form.raw else _FORMULA
    return [
        value
        if (kind := type(value)) in asis
        and (kind is not str or (value[:1] not in marks and ";" not in value and "\t" not in value))
        else _cell(value, form)
        for value in values
    ]


def _write_lines(out: BinaryIO, exchanges: Chunks, form: _Csv) -> int:
    count = 0
    cell = functools.partial(_quoted, form=form)
    for id, decoded in exchanges.bodies:
        lines = chunk_lines(id, decoded, cell, form.end)
        if exchanges.limit is not None:
            del lines[exchanges.limit - count :]
        out.write(_encoded("".join(lines)))
        count += len(lines)
        if count == exchanges.limit:
            break
    return count


def chunk_lines(id: str, decoded: "Decoded", cell: Callable[[Any], str], end: str) -> list[str]:
    """Return the lines of an exchange's chunks, run by run; `cell` writes a text, an integer, a boolean or None.

    Of the millions of chunks that a tape holds nearly each differs from the one before in a text, its number and two
    timestamps: the other cells are written once for a run. A test compares the lines with those of `csv.writer`.
    """
    at_ns = list(itertools.chain.from_iterable(decoded.at_ns[run.items] for run in decoded.runs))
    at_ms, gap_ms = milliseconds(at_ns), ["", *milliseconds(chunks.gaps(at_ns))]
    lines: list[str] = []
    id_cell, seq = cell(id), 0
    for run in decoded.runs:
        surroundings = [_surroundings(row, run.part, cell, end) for row in chunks.chunk(id, run.chunk)]
        span = slice(seq, seq + len(run))
        reads = ["" if read is None else read for read in decoded.reads[run.items]]
        texts = [text if _ORDINARY(text) else cell(text) for text in run.texts]
        lines += [
            f"{id_cell},{number},{at},{gap},{read},{item},{before}{text}{after}"
            for number, (at, gap, read, item, text) in enumerate(
                zip(at_ms[span], gap_ms[span], reads, itertools.count(run.item), texts), seq
            )
            for before, after in surroundings
        ]
        seq += len(run)
    return lines


def milliseconds(ns: Sequence[float | None]) -> list[str]:
    """Write nanoseconds as CSV has them: `rows.ms` of each, with as many digits as it needs; unknown is empty.

    Raises `TapeDamaged` where one is no number.
    """
    numbers = [value for value in ns if value is not None]
    if not _are_usual(numbers):
        return ["" if value is None else repr(ms(value)) for value in ns]
    are_integers = set(map(type, numbers)) == {int}
    encoded = msgspec.json.encode(
        [value / 1e6 for value in numbers] if are_integers else [round(value / 1e6, 6) for value in numbers]
    )
    # It writes the same as Python, and faster, except for numbers that Python writes with an exponent.
    if b"e" in encoded or b"n" in encoded or b",0.0000" in encoded or encoded.startswith(b"[0.0000"):
        return ["" if value is None else repr(ms(value)) for value in ns]
    texts = encoded[1:-1].decode().split(",")
    if len(texts) == len(ns):
        return texts
    next_texts = iter(texts)
    return ["" if value is None else next(next_texts) for value in ns]


def _are_usual(numbers: Sequence[float]) -> bool:
    try:
        return bool(numbers) and min(numbers) >= 0 and max(numbers) < EXACT
    except TypeError:  # a text: `rows.ms` raises the error
        return False


def _surroundings(row: TableRow, part: str | None, cell_of: Callable[[Any], str], end: str) -> tuple[str, str]:
    """Return the cells of a line between the event and the open text, and those after the text with the line's end."""
    fields = CHUNK_FIELDS[_FIRST:]
    cells = [cell_of(row[field]) for field in fields]
    if part is None:
        return ",".join(cells), end
    place = fields.index(PART_FIELDS[part])
    return "".join(f"{cell}," for cell in cells[:place]), "".join(f",{cell}" for cell in cells[place + 1 :]) + end


def _quoted(value: Any, form: _Csv) -> str:
    """Write one value as `csv.writer` writes the cell of it."""
    if type(value) is str and form.shown is None and _UNQUOTED(value):  # nearly every cell
        return value
    cell = _cell(value, form)
    return "" if cell is None else _in_quotes(str(cell))


def _in_quotes(text: str) -> str:
    """Return the cell of a text: in quotes if a reader would take a sign in it for a separator or a quote."""
    return f'"{text.replace(_QUOTE, _QUOTE * 2)}"' if _TO_QUOTE(text) else text


def _cell(value: Any, form: _Csv) -> str | int | float | None:
    flat = words(value)
    if not isinstance(flat, str):
        return flat
    text = flat if form.raw else guarded(flat)
    return text if form.shown is None else form.shown(text)


def _safe_lines(text: str) -> str:
    """Return a text safe for a terminal, with its line feeds and tabs, which do no harm there."""
    return "\t".join(safe(part, multiline=True) for part in text.split("\t"))


def _drain(buffer: io.StringIO, out: BinaryIO) -> None:
    out.write(_encoded(buffer.getvalue()))
    buffer.seek(0)
    buffer.truncate()


def _write_tsv(out: BinaryIO, fields: Sequence[str], entries: Iterable[TableRow], is_safe: bool, header: bool) -> int:
    if header:
        out.write(_encoded("\t".join(fields) + "\n"))
    if isinstance(entries, Exchanges) and tuple(fields) == entries.fields:
        return _write_columns(out, entries, "\t", "\n", functools.partial(_tsv_texts, is_safe=is_safe))
    return _write_text(
        out,
        ("\t".join(_unquoted(row[field], is_safe) for field in fields) + "\n" for row in _rounded(fields, entries)),
    )


def _markdown(values: Sequence[Any]) -> str:
    texts = ["" if (flat := words(value)) is None else safe(str(flat)) for value in values]
    return "".join(f"| {_MARKUP.sub(_ESCAPED, text)} " for text in texts) + "|\n"


def _write_text(out: BinaryIO, lines: Iterable[str]) -> int:
    count = 0
    for line in lines:
        out.write(_encoded(line))
        count += 1
    return count


def _unquoted(value: Any, is_safe: bool) -> str:
    kind = type(value)
    if kind is float or kind is int:
        return str(value)
    flat = value if kind in _TEXT else words(value)
    text = "" if flat is None else str(flat)
    text = text.translate(_TSV) if _TO_ESCAPE(text) else text  # few texts need it, and a search is faster
    if text.startswith(_QUOTE):
        text = f'"{text.replace(_QUOTE, _QUOTE * 2)}"'
    return safe(text) if is_safe else text


def _json(row: TableRow, is_safe: bool, indent: int | None = None) -> str:
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(row, ensure_ascii=False, separators=separators, indent=indent)
    # Many readers split lines at these too; in JSON they may be escaped.
    for sign in _LINE_ENDS:
        if sign in text:
            text = text.replace(sign, _escape(sign))
    if not is_safe or safe(text, multiline=True) == text:
        return text
    # Control characters as escapes do no harm to a terminal, and the value stays the same.
    return "".join(sign if safe(sign, multiline=True) == sign else _escape(sign) for sign in text)


def _escape(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _encoded(text: str) -> bytes:
    # Only lone surrogates cannot be encoded, and Python's escape for them is JSON's.
    return text.encode("utf-8", "backslashreplace")

"""What screens have to copy and to export: commands that give again what is on the screen, from any directory."""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from recorder.commands import options
from recorder.plurals import counted
from viewer.rows import Row
from viewer.tui.base.host import TapeReader
from viewer.tui.list import questions
from viewer.tui.list.questions import Wanted


@dataclass(frozen=True, slots=True)
class Later:
    """A text that is made when it is chosen; until then `said` stands for it. `give` raises `WiretapeError`.

    `instead` is a command that gives it, too, however long it is.
    """

    said: str
    give: Callable[[], Awaitable[str]]
    instead: str = ""


Copy = tuple[str, "str | Later"]
"""What can be copied: a label and the text."""


def arguments(path: Path, *arguments: str) -> list[str]:
    """Give arguments of `wiretape` for a tape: the command, `--db` unless it finds the tape by itself, and the rest."""
    return [*arguments[:1], *_on(path), *arguments[1:]]


def command(path: Path, *arguments: str) -> str:
    """Give a command of `wiretape` for a tape as a shell takes it."""
    return shlex.join(["wiretape", *arguments[:1], *_on(path), *arguments[1:]])


def given(path: Path, id: str, part: str) -> str:
    """Give the command that gives a part of an exchange, however long it is."""
    verb, *rest = _GIVEN.get(part, ("export", "--table", "texts"))
    return command(path, verb, id, *rest)


_GIVEN: dict[str, tuple[str, ...]] = {
    "text": ("show", "--part", "text"),
    "curl": ("show", "--part", "request"),
    "request body": ("show", "--part", "request"),
    "SSE": ("show", "--part", "raw"),
}


def copies(tape: TapeReader, wanted: Wanted, row: Row | None, marked: Sequence[str]) -> list[Copy]:
    """Give what can be copied of the list: (label, text). `row` is the one under the cursor, `marked` are ids."""
    found: list[Copy] = [("this list", command(tape.path, "ls", *_filtered(wanted), *_sorted(wanted)))]
    if row is not None:
        id = str(row["id"])
        verbs: list[Copy] = [(verb, command(tape.path, verb, id)) for verb in ("show", "view")]
        found = [("id", id), *verbs, *found, *_texts(tape, row)]
    if marked:
        found.append(("marked ids", "\n".join(marked)))
    return found


def exports(
    tape: Path, wanted: Wanted, row: Row | None, marked: Sequence[str], fitting: int
) -> list[tuple[str, list[str]]]:
    """Give what can be exported of the list: (label, arguments); `fitting` is how many exchanges it has."""
    listed = arguments(tape, "export", *_filtered(wanted))
    found = [(counted(fitting, "exchange"), listed), (f"their texts, {fitting:,}", [*listed, "--table", "texts"])]
    if marked:
        found.append((f"marked, {len(marked)}", arguments(tape, "export", *marked)))
    if row is not None:
        one = arguments(tape, "export", str(row["id"]))
        short = str(row["id"])[:8]
        found += [(f"bytes of {short}", [*one, "--format", "sse"]), (f"chunks of {short}", [*one, "--table", "chunks"])]
    return found


def _texts(tape: TapeReader, row: Row) -> list[Copy]:
    """Give the texts of an exchange, which are read when they are chosen."""

    def later(part: questions.Copied) -> Later:
        asked = questions.copied(row["no"], row["id"], part)
        return Later(questions.COPIED[part], partial(tape.ask, asked, "copy"), given(tape.path, row["id"], part))

    parts: list[questions.Copied] = ["curl", "text", "SSE"]
    return [(part, later(part)) for part in [*parts, *_TOOLS.get(row["finish_reason"], ())]]


_TOOLS: dict[str | None, tuple[questions.Copied, ...]] = {"tool_calls": ("tool arguments",)}


def _on(path: Path) -> list[str]:
    found = options.tape_path(None)
    is_found = found.is_absolute() and found == path.absolute()  # a relative one is only found from here
    return [] if is_found else ["--db", str(path.absolute())]


def _filtered(wanted: Wanted) -> list[str]:
    return [] if wanted.filter is None else ["-f", wanted.text]


def _sorted(wanted: Wanted) -> list[str]:
    if wanted.order is None:
        return []
    field, largest_first = wanted.order
    return ["-s", f"{'-' if largest_first else ''}{field}"]

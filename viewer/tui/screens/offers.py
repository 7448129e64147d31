"""What the list has to copy and to export: commands that give again what is on the screen."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from viewer.rows import Row
from viewer.tui.screens.questions import Wanted


def copies(tape: Path, wanted: Wanted, row: Row | None, marked: Sequence[str]) -> list[tuple[str, str]]:
    """Give what can be copied: (label, text). `row` is the one under the cursor, `marked` are ids."""
    on = ["--db", str(tape.absolute())]
    found = [("this list", shlex.join(["wiretape", "ls", *on, *_filtered(wanted), *_sorted(wanted)]))]
    if row is not None:
        id = str(row["id"])
        found = [("id", id), *((verb, shlex.join(["wiretape", verb, *on, id])) for verb in ("show", "view")), *found]
    if marked:
        found.append(("marked ids", "\n".join(marked)))
    return found


def exports(wanted: Wanted, row: Row | None, marked: Sequence[str], fitting: int) -> list[tuple[str, list[str]]]:
    """Give what can be exported: (label, arguments of `wiretape`); `fitting` is how many exchanges the list has."""
    listed = ["export", *_filtered(wanted)]
    found = [(f"{fitting:,} exchanges", listed), (f"their texts, {fitting:,}", [*listed, "--table", "texts"])]
    if marked:
        found.append((f"marked, {len(marked)}", ["export", *marked]))
    if row is not None:
        id = str(row["id"])
        found += [(f"bytes of {id[:8]}", ["export", id, "--format", "sse"]), (f"chunks of {id[:8]}", _chunks(id))]
    return found


def _chunks(id: str) -> list[str]:
    return ["export", id, "--table", "chunks"]


def _filtered(wanted: Wanted) -> list[str]:
    return [] if wanted.filter is None else ["-f", str(wanted.filter)]


def _sorted(wanted: Wanted) -> list[str]:
    if wanted.order is None:
        return []
    field, largest_first = wanted.order
    return ["-s", f"{'-' if largest_first else ''}{field}"]

"""Pure: the viewer's notices about empty lists and about the recorder, with advice."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wiretape.recorder import local_time
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.sanitize import safe
from wiretape.viewer.query.fields import FIELDS
from wiretape.viewer.query.operators import DURATIONS
from wiretape.viewer.query.syntax import Among, Compare, Filter, Match, Word
from wiretape.viewer.text.cells import Part

Lines = list[list[Part]]


def _how_to_record(naming: str) -> Lines:
    steps = (
        ("1. start the recorder", f"wiretape record{naming} --upstream https://api.openai.com"),
        ("2. point your app at it", "export OPENAI_BASE_URL=http://127.0.0.1:8377/v1"),
        ("or both in one go", f"wiretape run{naming} -- python app.py"),
    )
    return [[(f"{step:<25}", "muted"), (command, "accent")] for step, command in steps]


def recorder_line(run: RecorderRun | None, wall_ns: int) -> list[Part]:
    """Return the state of the recorder: `run` is the newest of the tape."""
    state = run and run.state(wall_ns)
    if run is None or state == "ended":
        return [("○ ", "muted"), ("recorder not running", "muted")]
    if state == "lost":
        heard = local_time.moment(run.heartbeat_at, "minutes")
        return [("? ", "warning"), (f"recorder silent since {heard}", "warning")]
    upstream = run.upstreams[0][1] if len(run.upstreams) == 1 else f"{len(run.upstreams)} upstreams"
    return [("● ", "error"), (f"REC {_address(run.listen)} → {_address(upstream)}", "plain")]


def no_tape(path: Path, naming: str = "") -> Lines:
    """Return the notice that there is no tape yet: where one is looked for, and how one is made.

    `naming` is the option that names it, with a space before.
    """
    return [
        [("There is no tape yet.", "strong")],
        [(safe(str(path)), "muted"), ("   another: --db FILE, or WIRETAPE_DB", "muted")],
        [],
        *_how_to_record(naming),
        [],
        [("This screen updates by itself as soon as something is recorded.", "muted")],
    ]


@dataclass(frozen=True, slots=True)
class TapeSummary:
    """The number of exchanges on a tape, and when the first and the last of them began, if that is known."""

    total: int
    started: tuple[str, str] | None


def tape_gone(path: Path, summary: TapeSummary | None) -> Lines:
    """Return the notice of a tape that is gone, with its last contents."""
    first_start, last_start = summary.started or ("", "") if summary is not None else ("", "")
    began = f", begun {local_time.period(first_start, last_start)}" if first_start else ""
    contents: Lines = [] if summary is None else [[(f"It held {counted(summary.total, 'exchange')}{began}.", "plain")]]
    return [
        [("The tape is gone.", "strong")],
        [(f"{safe(str(path))} was deleted or moved.", "error")],
        *contents,
        [],
        [("It is shown again as soon as it is back; q leaves.", "muted")],
    ]


def empty(run: RecorderRun | None, wall_ns: int, naming: str = "") -> Lines:
    """Return the notice that nothing is recorded yet, with advice: `run` is the newest of the tape."""
    is_running = run is not None and run.state(wall_ns) == "running"
    now = f"running at {_address(run.listen)}" if run is not None and is_running else "not running"
    return [
        [("No exchanges recorded yet.", "strong")],
        [],
        *_how_to_record(naming),
        [],
        [(f"Recorder: {now}", "success" if is_running else "warning"), ("   This screen updates by itself.", "muted")],
    ]


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a filter, the count of exchanges that it matches alone, and the term probably meant."""

    text: str
    count: int
    suggestion: str | None = None


def none_match(total: int, terms: Sequence[Term], running_count: int = 0) -> Lines:
    """Return the notice that a filter matches none, and what each term matches alone; `running_count` still run."""
    runs = f"{running_count:,} still run{'s' if running_count == 1 else ''}"
    hint: Part = (f"{runs}: what is measured counts when an exchange has ended", "muted")
    more: Lines = [[], [hint]] if running_count else []
    return [
        [(f"0 of {total:,} match.", "strong")],
        [],
        *map(_term_line, terms),
        *more,
        [],
        [("/ edits the filter, \\ switches it off", "muted")],
    ]


def _term_line(term: Term) -> list[Part]:
    question = "" if term.suggestion is None else f": did you mean {safe(term.suggestion)}?"
    return [
        (f"{term.count:>10,}  ", "plain" if term.count else "warning"),
        (safe(term.text), "plain"),
        (f"  alone{question}", "muted"),
    ]


def nothing_shipped(name: str) -> Lines:
    """Return the notice that a server has no exchanges, with advice."""
    return [
        [("Nothing has been shipped yet.", "strong")],
        [(safe(name), "muted")],
        [],
        [("ship a tape to it   ", "muted"), ("wiretape ship --db TAPE --to clickhouse://…", "accent")],
        [("R reads again", "muted")],
    ]


def failed(error: WiretapeError, source_name: str = "tape") -> Lines:
    """Return the notice about a source that cannot be read."""
    return [
        [(f"The {source_name} cannot be read.", "strong")],
        [(safe(str(error)), "error")],
        [],
        [("It is tried again and again; q leaves.", "muted")],
    ]


def meant(term: Filter) -> Filter | None:
    """Return the term that may be meant: a comparison of minutes in a smaller unit, an error's code as HTTP status.

    Words are searched in answers only: one without a match may occur in a prompt.
    """
    match term:
        case Word(pattern):
            return Match("prompt", (pattern,))
        case Match("error", ((str(code),),), False) if re.fullmatch("[1-5][0-9]{2}", code):
            return Among("status", ((int(code), int(code)),))
    if not isinstance(term, Compare) or FIELDS[term.field].kind not in DURATIONS:
        return None
    if isinstance(term.limit, str) or term.limit < 60_000_000_000:
        return None
    return Compare(term.field, term.order, term.limit // 1000)


def _address(url: str) -> str:
    return safe(url.partition("://")[2].partition("/")[0] or url)

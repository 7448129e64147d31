"""Pure: endings of exchanges and their causes in a few words, for lists, statistics and closing lines."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from wiretape.recorder.decode.exchange import Standing
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe


class Ending(NamedTuple):
    """The end of an exchange, or of several alike; the last three are flags of its answer."""

    outcome: Standing
    detail: str | None = None
    code: str | None = None
    status: int | None = None
    stalled: bool = False
    buffered: bool = False
    given_up: bool = False

    @property
    def cause(self) -> str:
        """The event and its party, such as `cut by upstream`; of an HTTP error, its status."""
        if self.outcome == "http_error":
            return str(self.status or "HTTP error")
        if self.outcome == "error_event" and "overload" in (self.code or "").lower():
            return "overloaded"
        if (self.outcome, self.detail) == ("error_event", "finish"):
            return f"finish reason {safe(self.code or 'error')}"
        if self.given_up:
            return "given up in a stall"
        # The frame's kind is enough for an HTTP/2 error: `rst`, `goaway`.
        details = (self.detail, (self.detail or "").partition("_")[0], None)
        causes = (_CAUSES.get((self.outcome, detail)) for detail in details)
        return next(filter(None, causes), None) or safe(self.outcome)


def broken_off(ending: Ending, lasted_ms: float, *, is_quiet: bool, is_brief: bool = False) -> str:
    """Return the words for an exchange that broke off in a stall of upstream's.

    They are such as `gave up after 5.0 s without output by upstream`, or for a narrow column (`is_brief`) `upstream
    stalled 5.0 s`. `is_quiet`: no byte at all came in it.
    """
    lasted, did = f"{lasted_ms / 1000:,.1f} s", _BROKEN_OFF.get(ending.outcome, ending.cause)
    if is_brief:
        return f"upstream stalled {lasted}" if ending.outcome in _IN_STALL else f"{did} after {lasted}"
    silent = "of silence" if is_quiet and ending.outcome != "client_closed" else "without output"
    return f"{did} after {lasted} {silent}{'' if did.endswith('by upstream') else ' by upstream'}"


def counts(endings: Mapping[Ending, int], most: int | None = None) -> str:
    """Return the counts of exchanges by their ends, with `most` causes of failures."""
    parts = [f"{count:,} {name}" for name, count in _by_kind(endings).items() if count]
    failed = causes(endings, most)
    return " · ".join(f"{part}: {failed}" if part.endswith(" failed") else part for part in parts)


def summary(endings: Mapping[Ending, int]) -> str:
    """Return the counts of complete exchanges, of each cause of failures, and of the others."""
    kinds = _by_kind(endings)
    parts = [causes(endings) if name == "failed" else f"{count:,} {name}" for name, count in kinds.items() if count]
    return ", ".join(parts)


def causes(endings: Mapping[Ending, int], most: int | None = None) -> str:
    """Return the causes of failures, each with its count, the most frequent first; beyond `most` only their number."""
    failures = Counter[str]()
    for ending, count in endings.items():
        if _kind(ending) == "failed":
            failures[ending.cause] += count
    ordered = sorted(failures.items(), key=lambda cause_count: (-cause_count[1], cause_count[0]))
    # A cause that begins with a digit, as `429` does, would read as one number with its count.
    visible = [f"{count:,} {'× ' if cause[:1].isdigit() else ''}{cause}" for cause, count in ordered[:most]]
    other_count = len(ordered) - len(visible)
    return ", ".join(visible) + (f" and {counted(other_count, 'other cause')}" if other_count else "")


def stalls(endings: Mapping[Ending, int], owners: Mapping[str, int] | None = None) -> str:
    """Return the count of answers that stalled, by whose stalls they were where `owners` counts them."""
    stalled = sum(count for ending, count in endings.items() if ending.stalled)
    by = owners or {"": stalled}
    return ", ".join(f"{counted(count, 'stall')} {owner}".rstrip() for owner, count in by.items() if count)


def given_up(endings: Mapping[Ending, int]) -> str:
    """Return the count of streams that their clients left in a stall of upstream's."""
    count = sum(count for ending, count in endings.items() if ending.given_up)
    return f"{counted(count, 'stream')} given up in a stall" if count else ""


def buffered(endings: Mapping[Ending, int]) -> str:
    count = sum(count for ending, count in endings.items() if ending.buffered)
    return f"{count:,} buffered" if count else ""


def _kind(ending: Ending) -> str:
    return "given up in a stall" if ending.given_up else _KINDS.get(ending.outcome, "failed")


def _by_kind(endings: Mapping[Ending, int]) -> dict[str, int]:
    names = ("complete", "failed", "given up in a stall", "cancelled by the client", "running", "not measured")
    kinds = dict.fromkeys(names, 0)
    for ending, count in endings.items():
        kinds[_kind(ending)] += count
    return kinds


_IN_STALL: Final = ("client_closed", "timeout")
_BROKEN_OFF: Final = {
    "client_closed": "gave up", "truncated": "cut by upstream", "connect_error": "cut by upstream",
    "timeout": "timed out",
}  # fmt: skip
_KINDS: Final = {
    "complete": "complete",
    "client_closed": "cancelled by the client",
    "open": "running",
    "unmeasured": "not measured",
}
_CAUSES: Final[dict[tuple[str, str | None], str]] = {
    ("complete", None): "complete",
    ("open", None): "running",
    ("unmeasured", None): "not measured",
    ("client_closed", None): "cancelled by client",
    ("connect_error", None): "no connection",
    ("connect_error", "dns"): "host name not found",
    ("connect_error", "refused"): "connection refused",
    ("connect_error", "tls"): "TLS failed",
    ("connect_error", "reset"): "connection reset",
    ("connect_error", "rst"): "stream reset",
    ("connect_error", "goaway"): "connection closed",
    ("connect_error", "local"): "local limit reached",
    ("timeout", None): "timeout",
    ("timeout", "connect"): "connect timeout",
    ("timeout", "headers"): "no answer in time",
    ("timeout", "idle"): "upstream fell silent",
    ("truncated", None): "cut by upstream",
    ("truncated", "aborted"): "aborted by upstream",
    ("truncated", "no_status"): "ended without a status",
    ("error_event", None): "error in the stream",
    ("error_event", "before_output"): "error before output",
    ("error_event", "mid_stream"): "error in mid-stream",
    ("malformed", None): "invalid JSON",
    ("interrupted", None): "recorder stopped",
}

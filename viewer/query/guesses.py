"""Pure: suggestions for names that do not exist, by their meaning in other programs, or else by spelling."""

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Final

from wiretape.viewer.query.fields import CHOICES, NAMES

MOST: Final = 3
"""Maximum number of suggestions: nobody reads seventy."""

ALL: Final = "'wiretape help fields' lists all"

OWNERS: Final = {"flags": "flag", "outcome": "is", "has": "has", "operation": "operation"}
"""Names in filters of the fields that have certain values only."""

MEANINGS: Final = {
    "slow": "ttft>2s|duration>30s|flag:stall|ttft|duration", "stalled": "flag:stall|stall",
    "slowest": "ttft|duration|latency", "stalls": "flag:stall|stall|max_output_silence", "hung": "flag:stall|stall",
    "stuck": "flag:stall|stall|open", "silent": "flag:stall|stall|max_silence",
    "limited": "status:429|detail:rate_limited", "rate_limited": "status:429|detail:rate_limited",
    "throttled": "status:429|detail:rate_limited", "buffered": "flag:burst|burst",
    "success": "ok", "succeeded": "ok", "successful": "ok", "fail": "failed", "failure": "failed",
    "broken": "failed|cut", "bad": "failed", "errors": "failed|error_rate|error_code",
    "running": "open", "active": "open", "streaming": "open", "pending": "open",
    "cancelled": "client_closed", "canceled": "client_closed", "disconnected": "client_closed|truncated",
    "second": "hour|day", "minute": "hour|day", "week": "day", "month": "day", "date": "day|started_at",
    "time": "started_at|duration|hour", "timestamp": "started_at", "created": "started_at", "newest": "started_at",
    "latest": "started_at",
    "code": "status|error_code", "http_code": "status", "status_code": "status", "http": "status",
    "vendor": "upstream_name|upstream", "provider": "upstream_name|upstream|api", "name": "upstream_name|tool_name",
    "endpoint": "path|upstream",
    "url": "upstream|path", "server": "upstream", "message": "error_message|content|text", "answer": "content",
    "cause": "ended_by|outcome_detail", "blame": "ended_by|outcome_detail",
    "fault": "ended_by|outcome_detail", "by": "ended_by", "itl": "icl_p50|icl.p50|tpot",
    "user": "label.KEY|label|labels", "agent": "label.KEY|label|labels", "program": "label.KEY|label|labels",
    "tag": "label.KEY|label", "session": "conversation", "thread": "conversation",
    "stop_reason": "finish_reason", "time_to_first_token": "ttft", "speed": "tps_user",
    "throughput": "tps_user", "pause": "max_silence|max_gap",
    "cached": "cache_verdict:hit|cache_verdict|cache_read_input_tokens",
    "tools": "has:tool|tool_name", "streamed": "-flag:nonstream", "stream": "-flag:nonstream",
}  # fmt: skip
"""Names and terms of filters by the words that users have for them; `|` separates several."""


def nearest(
    word: str, names: Iterable[str], meanings: Mapping[str, str] = MEANINGS, *, terms: bool = False
) -> list[str]:
    """Return at most `MOST` of the names, those that a word means, or else those that are spelled like it.

    With `terms`, it is written where a filter's term may stand: `flag:stall` is an answer, too.
    """
    choices = dict.fromkeys(names)
    typed = re.sub(r"^[0-9]+ ?[smhdw][a-z]*$", "minute", word.lower()).replace("-", "_")
    matches = [
        name
        for name in meanings.get(typed, "").split("|")
        if name in choices or f"{name}_ms" in choices or (terms and re.search("[:<>]", name))
    ]
    if terms and not matches:
        is_status = re.fullmatch("[1-5]([0-9]{2}|xx)", typed)
        owners = [name for field, name in OWNERS.items() if typed in CHOICES[field]]
        matches = [f"{name}:{typed}" for name in (["status"] if is_status else owners)]
    if not matches and NAMES.get(typed) in choices:  # an alias of a field, where only its own name counts
        matches = [NAMES[typed]]
    if not matches and len(typed) >= 3:  # a shorter word is part of too many names
        parts = [name for name in choices if re.search(rf"(?<![^_.]){re.escape(typed)}", name)]
        matches = sorted(parts, key=lambda name: not name.startswith(typed))
    return (matches or _misspelled(word.lower(), choices))[:MOST]


def _misspelled(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that differ from a word by a letter or two: to share letters, as `disk` and `is`, is no slip."""
    return [
        name
        for name in get_close_matches(word, names, MOST, cutoff=0.74)
        if name[0] == word[0] or SequenceMatcher(None, name, word).ratio() > 0.8
    ]


def question(guesses: Collection[str]) -> str:
    """Return "did you mean …?" with the guesses, or "" for none."""
    *others, last = guesses or [""]
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


def advice(word: str, names: Iterable[str], source: str = ALL, *, terms: bool = False) -> str:
    """Return the end of a message about a wrong name: suggestions, if any, and the source of all names."""
    suggestion = question(nearest(word, names, terms=terms))
    return f": {suggestion} {source}" if suggestion else f"; {source}"

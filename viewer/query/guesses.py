"""Pure: suggestions for names that do not exist: by what users of other programs mean, or else by spelling."""

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

MOST: Final = 3
"""Maximum number of suggestions: nobody reads seventy."""

ALL: Final = "'wiretape help fields' lists all"

MEANINGS: Final = {
    "slow": "ttft>2s|duration>30s|flag:stall|ttft|duration", "stalled": "flag:stall|stall", "hung": "flag:stall|stall",
    "stuck": "flag:stall|stall|open", "silent": "flag:stall|stall|max_silence",
    "limited": "status:429|detail:rate_limited", "rate_limited": "status:429|detail:rate_limited",
    "throttled": "status:429|detail:rate_limited", "buffered": "flag:burst|burst",
    "success": "ok", "succeeded": "ok", "successful": "ok", "fail": "failed", "failure": "failed",
    "broken": "failed|cut",
    "running": "open", "active": "open", "streaming": "open", "pending": "open",
    "cancelled": "client_closed", "canceled": "client_closed", "disconnected": "client_closed|truncated",
    "second": "hour|day", "minute": "hour|day", "week": "day", "month": "day", "date": "day|started_at",
    "time": "started_at|duration|hour", "timestamp": "started_at", "created": "started_at",
    "code": "status|error_code", "http_code": "status", "status_code": "status", "http": "status",
    "vendor": "upstream_name|upstream", "endpoint": "path|upstream",
    "url": "upstream|path", "server": "upstream", "message": "error_message|content|text",
    "user": "label.KEY|label", "tag": "label.KEY|label", "session": "conversation", "thread": "conversation",
    "stop_reason": "finish_reason", "time_to_first_token": "ttft", "speed": "tps_user",
    "throughput": "tps_user", "pause": "max_silence|max_gap", "cached": "cache_verdict|cache_read_input_tokens",
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
    usable_meanings = [
        name
        for name in meanings.get(typed, "").split("|")
        if name in choices or f"{name}_ms" in choices or (terms and re.search("[:<>]", name))
    ]
    return (usable_meanings or get_close_matches(word.lower(), choices, MOST))[:MOST]


def question(guesses: Collection[str]) -> str:
    """Return "did you mean …?" with the guesses, or "" for none."""
    *others, last = guesses or [""]
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


def advice(word: str, names: Iterable[str], source: str = ALL, *, terms: bool = False) -> str:
    """Return the end of a message about a wrong name: suggestions, if any, and the source of all names."""
    suggestion = question(nearest(word, names, terms=terms))
    return f": {suggestion} {source}" if suggestion else f"; {source}"

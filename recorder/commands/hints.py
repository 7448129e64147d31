"""Pure: commands that messages recommend, with the tape that the running command was given."""

import re
from collections.abc import Sequence
from itertools import takewhile

from wiretape.recorder import paths

_COMMAND = re.compile(
    r"'wiretape (?:db (?:check|rebuild|upgrade|vacuum)|ls|show|stats|export|record)\b(?![^']* --db)[^']*(?=')"
)
_SELF = re.compile(r":? (?:run|see) 'wiretape db check.*?'(?:, or|,|$)")


def complete(message: str, arguments: Sequence[str]) -> str:
    """Return a message whose commands have the `--db` of these arguments; `db check` is not sent to itself."""
    if [*arguments[:2]] == ["db", "check"]:
        message = _SELF.sub(":", message).rstrip(":")
    options = iter(takewhile(lambda word: word != "--", arguments))
    tapes = [word[5:] or next(options, "") for word in options if f"{word}="[:5] == "--db="]
    if not tapes or "@" in tapes[-1]:  # the URL of a server may have a password
        return message
    return _COMMAND.sub(lambda match: f"{match[0]} --db {paths.argument(tapes[-1])}", message)

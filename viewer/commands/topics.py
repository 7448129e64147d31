"""The topics of `help`: Markdown files, which are read here as text and linked from the README on the web.

A file begins with a title and a summary. Its list items define names: "- `ttft`: …". Generated parts are between
comments, which the documentation's test checks.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parents[1] / "help"
_INDEX: Final = "README"
_FIRST: Final = ("glossary", "outcomes", "fields")
"""Topics whose definitions come first."""
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"\[([^][]+)\]\((?!https?:)[^()]*\)")
_ESCAPED = re.compile(r"\\([*<])")
_ITEM = re.compile(r"^- ((?:`[^`]+`(?:, | or | in )?)+)[^\n]*(?:\n  [^\n]*)*", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")
_ELSEWHERE: Final = "Elsewhere: "
"""The beginning of the names that other tools have for a metric."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all topics, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.md") if path.stem != _INDEX))


def text(topic: str = _INDEX) -> str:
    """Return a topic as Markdown without comments and links between topics; by default the index."""
    source = (_FOLDER / f"{topic}.md").read_text("utf-8")
    return _ESCAPED.sub(r"\1", _LINK.sub(r"\1", _COMMENT.sub("", source))).rstrip() + "\n"


def definitions(name: str) -> dict[str, list[str]]:
    """Return the definitions of a name by topic, case ignored: of a metric, a flag, an outcome, a variable, …

    Other tools' names of a metric count, too. Fields are left out where the glossary has the metric.
    """
    found: dict[str, list[str]] = {}
    for topic in dict.fromkeys((*_FIRST, *names())):
        items = [item[0] for item in _ITEM.finditer(text(topic)) if name.lower() in _defined(item)]
        if items and not (topic == "fields" and _FIRST[0] in found):
            found[topic] = items
    return found


def defined() -> Iterator[str]:
    """Yield the names that the first topics define."""
    for topic in _FIRST:
        for item in _ITEM.finditer(text(topic)):
            yield from _NAME.findall(item[1])


def _defined(item: re.Match[str]) -> list[str]:
    elsewhere = item[0].partition(_ELSEWHERE)[2]
    return [name.lower().rstrip(":") for name in _NAME.findall(item[1] + elsewhere)]

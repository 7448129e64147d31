"""The topics of `help`: Markdown files, which are read here as text and linked from the README on the web.

A file begins with a title and a summary. Its list items define names: "- `ttft`: …", and so do the rows of the table of
names. Generated parts are between comments, which the documentation's test checks.
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
_BEHIND = re.compile(r"^(\S.*?) {2,}(# .*)$", re.MULTILINE)
"""A command with a comment behind it, in a block."""
_BLOCK = re.compile(r"^```sh\n.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"\[([^][]+)\]\((?!https?:)[^()]*\)")
_ESCAPED = re.compile(r"\\([*<])")
_ITEM = re.compile(r"^- ((?:`[^`]+`(?:, | or | in )?)+)[^\n]*(?:\n  [^\n]*)*", re.MULTILINE)
_HEAD = re.compile(r"^\| name .*\n\|--.*\n", re.MULTILINE)
"""The beginning of the table of names."""
_ROW = re.compile(r"^\| (`[^`|]+`) " + r"\| ([^|\n]*) " * 5 + r"\|$", re.MULTILINE)
"""A row of it: name, heading, aliases, statistic, unit, meaning."""
_NAME = re.compile(r"`([^`]+)`")


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.md") if path.stem != _INDEX))


def text(topic: str = _INDEX) -> str:
    """Return a topic as Markdown without comments and links between topics; by default the index."""
    source = (_FOLDER / f"{topic}.md").read_text("utf-8")
    # Above its command, a comment has room in any terminal.
    source = _BLOCK.sub(lambda block: _BEHIND.sub(r"\2\n\1", block[0]), source)
    return _ESCAPED.sub(r"\1", _LINK.sub(r"\1", _COMMENT.sub("", source))).rstrip() + "\n"


def dashboard() -> str:
    return (Path(__file__).parents[1] / "wings" / "prometheus" / "grafana.json").read_text("utf-8")


def definitions(name: str) -> dict[str, list[str]]:
    """Return the definitions of a name by topic, case ignored: of a metric, a flag, an outcome, a variable, …

    Other tools' names of a metric count, too. A field is left out where the glossary has all of its names.
    """
    lines: dict[str, list[str]] = {}
    of_glossary = set[str]()
    for topic in dict.fromkeys((*_FIRST, *names())):
        items = [item for item in _items(text(topic)) if name.lower() in _defined(*item)]
        if topic == _FIRST[0]:
            of_glossary = {named for item in items for named in _defined(*item)}
        if topic == "fields":
            items = [item for item in items if not of_glossary.issuperset(_defined(*item))]
        if items:
            lines[topic] = [item for _, item in items]
    return lines


def defined() -> Iterator[str]:
    """Yield the names that the first topics define."""
    for topic in _FIRST:
        for names, _ in _items(text(topic)):
            yield from _NAME.findall(names)


def _items(topic: str) -> Iterator[tuple[str, str]]:
    """Yield the names of each definition, and the definition as an item of a list."""
    for item in _ITEM.finditer(topic):
        yield item[1], item[0]
    for row in _ROW.finditer(topic):
        yield f"{row[1]}, {row[3]}", _item(row)


def without_table(topic: str) -> str:
    """Return a topic with the table of names as a list: a terminal has no room for its columns."""
    return _ROW.sub(_item, _HEAD.sub("", topic))


def _item(row: re.Match[str]) -> str:
    name, heading, aliases, statistic, unit, meaning = row.groups()
    more = (f"; heading {heading}" if heading else "") + (f"; statistic {statistic}" if statistic else "")
    return f"- {', '.join(filter(None, (name, aliases)))}: {meaning}{f' ({unit})' if unit else ''}{more}"


def _defined(names: str, item: str) -> list[str]:
    elsewhere = item.partition("Elsewhere: ")[2]  # the names that other tools have for a metric
    return [name.lower().rstrip(":") for name in _NAME.findall(names + elsewhere)]

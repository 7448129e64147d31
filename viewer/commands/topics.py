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
SYNONYMS: Final = {
    **dict.fromkeys(("cache", "caching", "prompt cache"), "sessions#Cache"),
    **dict.fromkeys(("backup", "backups", "restore"), "operate#Backup"),
    **dict.fromkeys(("upgrade", "upgrades"), "operate#Upgrades"),
    **dict.fromkeys(("disk", "retention", "wal"), "operate#Disk"), "sigterm": "operate#End", "log": "operate#Log",
    **dict.fromkeys(("service", "systemd", "kubernetes", "k8s", "compose", "daemon", "deploy"), "operate"),
    **dict.fromkeys(("errors", "failures", "why", "ends", "blame", "cause"), "outcomes"),
    **dict.fromkeys(("429", "rate-limit", "rate limit"), "outcomes"), **dict.fromkeys(("slow", "stalls"), "timeouts"),
    "gate": "ci",
    **dict.fromkeys(("certificate", "certificates", "https", "tls", "proxy", "mitm"), "intercept"),
    "conversations": "sessions", **dict.fromkeys(("costs", "price", "money"), "prices"),
    **dict.fromkeys(("keys", "tui", "theme", "settings"), "viewing"),
    **dict.fromkeys(("html", "page"), "viewing#Pages"),
    **dict.fromkeys(("mock", "pytest", "test", "tests"), "testing"),
    **dict.fromkeys(("columns", "field", "sort"), "fields"),
    **dict.fromkeys(("group", "groups", "percentile", "percentiles"), "statistics"),
    **dict.fromkeys(("pandas", "notebook"), "python"), "jupyter": "python#Jupyter", "minute": "python#By minute",
    **dict.fromkeys(("macos", "windows"), "limits"), **dict.fromkeys(("prometheus", "grafana"), "metrics"),
    **dict.fromkeys(("otel", "opentelemetry"), "otlp"), **dict.fromkeys(("agent", "skill"), "agents"),
    "claude": "recording", **dict.fromkeys(("exit", "exit codes"), "commands"), "retry": "sessions#Time",
    **dict.fromkeys(("redaction", "secrets", "privacy"), "security"),
    **dict.fromkeys(("install", "start"), "quickstart"),
}  # fmt: skip
"""Topics, or sections of topics, by the words that users have for them."""
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


@cache
def text(topic: str = _INDEX) -> str:
    """Return a topic as Markdown without comments and links between topics; by default the index."""
    source = (_FOLDER / f"{topic}.md").read_text("utf-8")
    source = _BLOCK.sub(lambda block: "\n".join(map(_with_comment_above, block[0].split("\n"))), source)
    return _ESCAPED.sub(r"\1", _LINK.sub(r"\1", _COMMENT.sub("", source))).rstrip() + "\n"


def _with_comment_above(line: str) -> str:
    """Return a line of a block with its comment, if any, above the command, where it has room in any terminal."""
    command, mark, comment = line.partition("  # ")
    return f"# {comment}\n{command.rstrip()}" if mark and command[:1].strip() else line


def answer(word: str) -> str | None:
    """Return the topic, or the section of one, that a word of `SYNONYMS` means; None for any other word."""
    topic, _, section = SYNONYMS.get(word.lower(), "").partition("#")
    if not topic:
        return None
    part = re.search(rf"^## {section}.*?(?=^## |\Z)", text(topic), re.MULTILINE | re.DOTALL) if section else None
    return f"From wiretape help {topic}:\n\n{part[0].rstrip()}\n" if part else text(topic)


def definition(name: str) -> str | None:
    """Return the definition of a name as one item, its other names and its topics behind it; None without any."""
    lines_by_topic = definitions(name)
    items = [
        (topic, _NAME.findall(names), meaning)
        for topic, lines in lines_by_topic.items()
        for names, _, meaning in (line[2:].partition(": ") for line in lines)
    ]
    if not items:
        return None
    stems = {name.lower().removesuffix("_ms"), name.lower(), f"{name.lower()}_ms"}
    # An item with many names is a list of things, and defines none of them as well as one with a few.
    named = [item for item in items if item[1][0].lower() in stems] or items
    first_topic, (title, *_), first_meaning = min(named, key=lambda item: len(item[1]))
    same = [item for item in items if item[1][0] == title]
    aliases = dict.fromkeys(alias for _, names, _ in same for alias in names[1:])
    others = dict.fromkeys(names[0] for _, names, _ in items if names[0] != title and names[0] not in stems)
    meanings = (f"{f'{topic}: ' if topic != first_topic else ''}{meaning}" for topic, _, meaning in same)
    notes = [
        f"  {label} {', '.join(f'`{alias}`' for alias in names)}."
        for label, names in (("Also", first_meaning and aliases), ("See also", others))
        if names
    ]
    source = ", ".join(dict.fromkeys(topic for topic, _, _ in items))
    line = f"- `{title}`: {' · '.join(meanings)}" if first_meaning else lines_by_topic[first_topic][0]
    return "\n".join([line, *notes, f"  From wiretape help {source}.", ""])


def dashboard() -> str:
    return (Path(__file__).parents[1] / "wings" / "prometheus" / "grafana.json").read_text("utf-8")


def definitions(name: str) -> dict[str, list[str]]:
    """Return the definitions of a name by topic, case ignored: of a metric, a flag, an outcome, a variable, …

    Other tools' names of a metric count, too. A field is left out where the glossary has all of its names.
    """
    lines: dict[str, list[str]] = {}
    of_glossary = set[str]()
    for topic in dict.fromkeys((*_FIRST, *names())):
        items = [item for item in _items(text(topic)) if {name.lower(), f"{name.lower()}_ms"} & _defined(*item)]
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


@cache
def _items(topic: str) -> tuple[tuple[str, str], ...]:
    """Return the names of each definition, and the definition as an item of a list."""
    items = ((item[1], item[0]) for item in _ITEM.finditer(topic))
    rows = ((f"{row[1]}, {row[3]}", _item(row)) for row in _ROW.finditer(topic))
    return *items, *rows


def without_table(topic: str) -> str:
    """Return a topic with the table of names as a list: a terminal has no room for its columns."""
    return _ROW.sub(_item, _HEAD.sub("", topic))


def _item(row: re.Match[str]) -> str:
    name, heading, aliases, statistic, unit, meaning = row.groups()
    more = (f"; heading {heading}" if heading else "") + (f"; statistic {statistic}" if statistic else "")
    return f"- {', '.join(filter(None, (name, aliases)))}: {meaning}{f' ({unit})' if unit else ''}{more}"


@cache
def _defined(names: str, item: str) -> frozenset[str]:
    elsewhere = item.partition("Elsewhere: ")[2]  # the names that other tools have for a metric
    return frozenset(name.lower().rstrip(":") for name in _NAME.findall(names + elsewhere))

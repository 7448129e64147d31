"""Suggestions for wrong commands and options: by meaning, and by spelling.

Users of other programs type the words of those: `list`, `--port`, `--json`. A suggestion is only made if it works
where the guess was made.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import click

from wiretape.recorder.commands.cli import UnknownCommand
from wiretape.viewer.commands.options import file_advice, is_file
from wiretape.viewer.query.guesses import MOST, nearest, question

# A word that happens to be hexadecimal, such as "face", is no id: one digit is required.
_REFERENCE = re.compile(r"@[a-z0-9-]*|last|(?=[a-f]*[0-9])[0-9a-f]{4,16}")

COMMANDS: Final = {
    "list": "ls", "log": "ls", "history": "ls", "sessions": "ls", "requests": "ls", "search": "ls", "find": "ls",
    "query": "ls", "grep": "ls", "watch": "ls --follow|view --follow", "tail": "ls --follow|view --follow",
    "follow": "ls --follow|view --follow",
    "replay": "play|serve", "playback": "play|serve", "mock": "serve", "fake": "serve", "stub": "serve",
    "server": "serve|record",
    "start": "record|run", "proxy": "record|run", "listen": "record", "relay": "record", "gateway": "record",
    "capture": "record|run", "intercept": "run|record", "up": "record", "daemon": "record",
    "exec": "run", "wrap": "run", "trace": "run", "launch": "run",
    "cat": "show", "get": "show", "info": "show|db info", "inspect": "show|view", "describe": "show", "open": "view",
    "tui": "view", "ui": "view", "web": "view --web", "browse": "view", "dashboard": "view|view --web",
    "top": "view|stats", "monitor": "view --follow|record --metrics",
    "diff": "compare", "cmp": "compare", "vs": "compare", "benchmark": "stats|compare", "bench": "stats|compare",
    "metrics": "stats|record --metrics", "summary": "stats", "bugreport": "report", "bug": "report",
    "issue": "report", "support": "report|help support", "analyze": "stats",
    "analyse": "stats", "percentiles": "stats", "count": "stats", "cost": "stats", "usage": "stats",
    "assert": "check", "test": "check", "ci": "check", "verify": "check|db check", "validate": "db check",
    "dump": "export", "save": "export|db cut", "csv": "export", "html": "export --html", "har": "export|import",
    "delete": "rm", "remove": "rm", "del": "rm", "clean": "rm|db prune", "clear": "rm|db prune", "purge": "db prune",
    "prune": "db prune", "merge": "db merge", "cut": "db cut", "vacuum": "db vacuum", "schema": "db schema",
    "rebuild": "db rebuild", "upgrade": "db upgrade", "migrate": "db upgrade", "repair": "db check|db rebuild",
    "load": "import", "add": "import", "sync": "ship|pull", "push": "ship", "upload": "ship", "send": "ship",
    "download": "pull", "fetch": "pull", "clickhouse": "fleet|ship", "example": "demo", "init": "demo|fleet init",
    "quickstart": "demo|help quickstart", "setup": "doctor|env", "config": "help|doctor",
    "status": "doctor|fleet status", "tutorial": "demo|help quickstart", "docs": "help", "man": "help",
    "topics": "help", "explain": "help", "skill": "mcp --print-skill|help agents", "tools": "mcp|help agents",
    "agent": "mcp|help agents", "agents": "mcp|help agents", "ask": "mcp", "sql": "mcp|db schema",
    "completions": "completion", "export-env": "env", "environment": "env", "vars": "env", "settings": "doctor",
}  # fmt: skip
"""Commands by the words that other programs have for them; `|` separates several."""

OPTIONS: Final = {
    "--port": "--listen", "-p": "--listen|--part", "--bind": "--listen", "--address": "--listen", "--addr": "--listen",
    "--json": "--format json", "--jsonl": "--format jsonl", "--csv": "--format csv", "--tsv": "--format tsv",
    "--parquet": "--format parquet", "--har": "--format har", "--type": "--format|--table",
    "--output-format": "--format", "--group-by": "--by", "--group": "--by", "-g": "--by", "-b": "--by",
    "--where": "--filter", "--query": "--filter", "-q": "--filter", "--search": "--filter", "--grep": "--filter",
    "--only": "--filter", "--outcome": "--filter is:…", "--status": "--filter status:…", "--failed": "--errors",
    "--flag": "--filter flag:…", "--tag": "--label", "--run": "--label run=…",
    "--head": "--limit", "--top": "--limit", "--max": "--limit|--max-gap", "--count": "--limit", "--tail": "--limit",
    "--lines": "--limit", "--last": "--limit|--since",
    "--order": "--sort", "--order-by": "--sort", "--sort-by": "--sort", "--fields": "--columns", "--cols": "--columns",
    "--select": "--columns", "--after": "--since", "--from": "--since", "--before": "--until", "--to": "--until",
    "--watch": "--follow", "--live": "--follow", "--file": "--db|--output", "--tape": "--db", "--database": "--db",
    "-d": "--db", "--path": "--db", "-i": "--db", "--input": "--db", "--out": "--output", "--target": "--upstream",
    "--url": "--upstream", "--api": "--upstream", "--backend": "--upstream", "--server": "--upstream",
    "--base-url": "--upstream", "--provider": "--upstream", "--force": "--yes|--force", "-y": "--yes",
    "--no-confirm": "--yes", "--rate": "--speed", "--fast": "--no-wait|--speed 0", "--raw": "--part raw|--as sse",
    "--text": "--part text|--as text|--with-text", "--events": "--part events|--as events", "--body": "--part raw",
    "--headers": "--part request", "--section": "--part", "--view": "--part", "--tool": "--as", "--like": "--as",
    "--before-after": "--base", "--baseline": "--base", "--a": "--base", "--candidate": "--new", "--b": "--new",
    "--threshold": "--max", "--fail-over": "--max", "--rule": "--max", "--slo": "--max", "--error": "--fault",
    "--retention": "--keep", "--ttl": "--keep", "--max-age": "--keep", "--max-size": "--max-db-size",
    "--prometheus": "--metrics", "--otel": "--otlp", "--opentelemetry": "--otlp", "--threads": "--workers",
    "--processes": "--workers", "-w": "--workers", "--mitm": "--intercept", "--proxy": "--intercept",
    "--percentiles": "--columns p50,p99", "--histogram": "--hist", "--all": "--all-operations", "--cert": "--ca-file",
    "--cacert": "--ca-file", "--browser": "--web", "--mode": "--record|--match",
}  # fmt: skip
"""Options by the words that other programs have for them; `|` separates several."""


def message(error: click.UsageError) -> str | None:
    """Return the message for a wrong command, option or argument; None for any other error."""
    context = error.ctx
    if isinstance(error, UnknownCommand):
        return _command(error)
    if context is None:
        return None
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        suggestion = _joined(_options(name, context.command)) or _owners(name, context)
        parameters = context.command.params
        options = chain.from_iterable(parameter.opts + parameter.secondary_opts for parameter in parameters)
        similar = nearest(name, (option for option in options if option.startswith("--")), {})
        return f"no option {name}{suggestion or _joined(similar)}"
    extra = re.match(r"Got unexpected extra arguments? \((.+)\)", error.message, re.DOTALL)
    return _argument(extra[1], context) if extra else None


def did_you_mean(guess: str, choices: Iterable[str]) -> str:
    """Return "; did you mean …?" with the closest of the known words, by meaning and by spelling, or ""."""
    return _joined(nearest(guess, choices, COMMANDS))


def _command(error: UnknownCommand) -> str:
    name, context = error.name, error.ctx
    assert context is not None
    assert isinstance(context.command, click.Group)
    text = f"no command {name!r}"
    if advice := file_advice(name):
        return f"{text}: {advice}: wiretape view --db {shlex.quote(name)}"
    is_root = context.parent is None
    guesses = COMMANDS.get(name.lower(), "").split("|") if is_root and name.lower() in COMMANDS else []
    if is_root and not guesses and shutil.which(name) and sys.argv[-1] != name:
        return f"{text}; to record a program: wiretape run -- {shlex.join(sys.argv[sys.argv.index(name) :])}"
    guesses = guesses or nearest(name, context.command.commands, {})
    root = context.find_root().command
    if not guesses and isinstance(root, click.Group) and name in root.commands:
        guesses = [f"wiretape {name}"]
    return f"{text}{_joined(guesses)}"


def _options(name: str, command: click.Command) -> Iterator[str]:
    options = {
        option: parameter for parameter in command.params for option in parameter.opts + parameter.secondary_opts
    }
    for guess in OPTIONS.get(name, "").split("|"):
        option, _, value = guess.partition(" ")
        choices = getattr(options[option].type, "choices", None) if option in options else None
        if option in options and (not value or choices is None or value in choices):
            yield guess


def _owners(name: str, context: click.Context) -> str:
    """Return a sentence on the commands that have an option, or one that it may mean, or ""."""
    root = context.find_root().command
    assert isinstance(root, click.Group)
    for option in (name, *(guess.partition(" ")[0] for guess in OPTIONS.get(name, "").split("|"))):
        owners = [
            owner
            for owner, command in root.commands.items()
            if option in chain.from_iterable(parameter.opts for parameter in command.params)
        ]
        if option and owners:
            return f"; {option} is an option of {', '.join(owners[:MOST])}"
    return ""


def _argument(words: str, context: click.Context) -> str:
    """Return the message for arguments of a command that takes none, or fewer."""
    name = context.info_name
    text = f"{words!r} is one argument too many"
    if file := next(filter(is_file, words.split()), None):
        return f"{text}: {file_advice(file)}"
    if name == "record":
        return f"{text}; to record a program: wiretape run -- {words}"
    if any(parameter.name in ("id", "ids") for parameter in context.command.params):
        return text
    if _REFERENCE.fullmatch(words):
        return f"{text}; to show one exchange: wiretape show {words}"
    if any("--filter" in parameter.opts for parameter in context.command.params):
        return f"{text}; to select exchanges: wiretape {name} --filter {shlex.quote(words)}, or one: wiretape show ID"
    return text


def _joined(guesses: Iterable[str]) -> str:
    asked = question([*dict.fromkeys(guesses)][:MOST])
    return asked and f"; {asked}"

"""All commands in groups, each with a summary that fits a line and three examples for the demo's tape.

`--help` lists the commands from here and so imports none of them.
"""

from collections.abc import Mapping
from typing import Final

import click

from wiretape.viewer import contracts

WINGS_COMMANDS: Final = [command for wing in contracts.built_in().values() for command in wing.commands]
"""The commands of the wings."""

_CHILDREN: Final = {f"{group.name} {name}": texts for group in WINGS_COMMANDS for name, texts in group.children.items()}

_OF_CORE: Final = {
    "Record": {
        "run": "Record one program: wiretape run -- python app.py",
        "record": "Relay streams for any program, and record every socket read.",
        "demo": "Record scripted streams, good and broken; needs no key.",
        "env": 'Print the variables for a running recorder: eval "$(wiretape env)"',
    },
    "Look": {
        "view": "Browse a tape in the terminal, or in a browser with --web.",
        "ls": "List exchanges, the newest first, or conversations.",
        "show": "Show one exchange: its end, timing, text, events or request.",
        "report": "Write a report for an issue, without prompts and keys.",
    },
    "Ask": {
        "stats": "Count, time and rate exchanges, by model or any other group.",
        "timeouts": "Which timeout would have cut which of the streams.",
        "compare": "Compare two exchanges, or two groups with intervals.",
        "check": "Judge figures by rules, for CI.",
        "export": "Export as CSV, JSON, Parquet, HAR, or as an HTML page.",
    },
    "Replay": {
        "db cut": "Cut a small tape, or a text, to commit beside a test.",
    },
    "Keep": {
        "db": "Check, merge, prune or upgrade a tape.",
        "dialect": "List, show and try declarations of dialects.",
        "rm": "Delete exchanges by id or by filter.",
    },
    "Many machines": {
        "ship": "Ship a tape to ClickHouse or OpenTelemetry.",
        "pull": "Copy exchanges of a server, or of another tape, to a tape.",
    },
    "Help": {
        "help": "Explain a topic, a command, or a name such as ttft or stall.",
        "doctor": "Check the tape, the disk, the clock and the environment.",
        "completion": "Print the completion script of a shell.",
    },
}


def _sections() -> Mapping[str, Mapping[str, str]]:
    """Return the core's commands by group, with those of the wings in their places."""
    sections = {title: [*commands.items()] for title, commands in _OF_CORE.items()}
    for command in WINGS_COMMANDS:
        names_in_sections = sections[command.section]
        place = [name for name, _ in names_in_sections].index(command.after) + 1 if command.after else 0
        names_in_sections.insert(place, (command.name, command.summary))
    return {title: dict(commands) for title, commands in sections.items()}


SECTIONS: Final = _sections()
"""The commands by group, with their summaries."""

SUMMARIES: Final = {
    **{name: summary for commands in SECTIONS.values() for name, summary in commands.items()},
    **{path: summary for path, (summary, _) in _CHILDREN.items()},
    "version": "Print the version.",
    "dialect list": "List the declared dialects.",
    "dialect show": "Print a declaration of wiretape.",
    "dialect try": "Decode a recorded stream by a declaration.",
    "db info": "Show the tape's contents and size.",
    "db schema": "Print the SQL of a tape: tables, columns, views.",
    "db check": "Check that the tape is whole; exit 3 if it is not.",
    "db copy": "Copy the tape, also while it is recorded.",
    "db upgrade": "Upgrade the tape to this program's schema.",
    "db rebuild": "Derive all measures again from the facts.",
    "db prune": "Delete old exchanges; wiretape rm deletes chosen ones.",
    "db vacuum": "Rewrite the tape without free space and deleted data.",
    "db merge": "Copy the exchanges of other tapes to this one.",
    "db fixture": "Make a synthetic tape with every outcome.",
}

EXAMPLES: Final = {
    "run": ("run -- python app.py", "run --label release=v2 -- python app.py",
            "run --host llm.example.com -- python app.py"),
    "record": ("record --upstream https://api.openai.com", "record --upstream gpu=http://127.0.0.1:8000 --listen :0",
               "record --intercept --keep 30d --max-db-size 2GB"),
    "demo": ("demo", "demo --db demo.db", "demo --db demo.db && wiretape stats --by model --db demo.db"),
    "env": ('eval "$(wiretape env)"', "env --listen 127.0.0.1:8378", "env --upstream gpu=http://127.0.0.1:8000"),
    "view": ("view", "view @stall", "view --filter 'ttft>300ms' --follow"),
    "ls": ("ls --errors", "ls --filter 'ttft>300ms or flag:stall' --sort -ttft",
           "ls --columns id,model,ttft,max_gap"),
    "show": ("show", "show @stall --part events", "show @err --format json"),
    "report": ("report @err", "report @s", "report -f model:demo-stall --format json"),
    "stats": ("stats --by model", "stats --as vllm", "stats --slo 'ttft<800ms,icl_p99<200ms'"),
    "timeouts": ("timeouts", "timeouts --by model --on output", "timeouts --idle 1s,2s,5s --format json"),
    "compare": ("compare @-14 @stall", "compare @-14 @stall --part request",
                "compare --base model:demo-openai --new model:demo-stall"),
    "check": ("check --max ttft.p50=1500ms --max error_rate=30%", "check --min n=10 --junit report.xml",
              "check --slo 'ttft<2s' --min goodput=70%"),
    "export": ("export -o exchanges.csv", "export --html --with-text -o run.html",
               "export --format trace -o traffic.jsonl"),
    "db": ("db info", "db check", "db cut @stall -o stall.jsonl"),
    "db cut": ("db cut @stall -o stall.jsonl", "db cut --errors -o broken.db", "db cut @ -o - --redact 'user-[0-9]+'"),
    "db info": ("db info", "db info --db demo.db", "WIRETAPE_DB=demo.db wiretape db info"),
    "db schema": ("db schema", "db schema --db demo.db", "db schema | grep ttft"),
    "db check": ("db check", "db check --db demo.db", "db check && wiretape db vacuum"),
    "db copy": ("db copy backup.db", "db copy backup.db --replace",
                "db copy new.db && wiretape db check --db new.db"),
    "db upgrade": ("db upgrade", "db upgrade --db demo.db", "db upgrade && wiretape db info"),
    "db rebuild": ("db rebuild", "db rebuild --db demo.db", "db rebuild && wiretape stats"),
    "db prune": ("db prune --older 30d --dry-run", "db prune --max-size 500MB --yes",
                 "db prune --older 8w --yes --vacuum"),
    "db vacuum": ("db vacuum", "db vacuum --dry-run", "db vacuum --db demo.db"),
    "db merge": ("db merge demo.db --db all.db", "db merge tapes/*.jsonl --db all.db",
                 "db merge tapes/*.jsonl --dry-run"),
    "db fixture": ("db fixture --db test.db", "db fixture --db test.db --exchanges 100",
                   "db fixture --db test.db --exchanges 10 --chunks 20 --seed 7"),
    "dialect": ("dialect list", "dialect show mcp", "dialect try own.toml @err"),
    "dialect list": ("dialect list", "dialect list --format json", "dialect list --format tsv"),
    "dialect show": ("dialect show ai-sdk-ui", "dialect show mcp", "dialect show tgi"),
    "dialect try": ("dialect try own.toml", "dialect try own.toml @err -n 100", "dialect try own.toml @ --format json"),
    "rm": ("rm --errors --dry-run", "rm @ --yes", "rm --filter model:demo-burst --yes --vacuum"),
    "ship": ("ship --to clickhouse://db.example.com/wiretape --once",
             "ship --to clickhouse://db.example.com/wiretape --label tenant=a --bodies --once",
             "ship --to otlp+http://127.0.0.1:4318 --once"),
    "pull": ("pull --filter is:ok -o good.db", "pull @stall -o stall.db", "pull --db demo.db --limit 5 -o five.db"),
    "help": ("help", "help filters", "help ttft"),
    "doctor": ("doctor", "doctor --format json", "doctor --db demo.db"),
    "completion": ('eval "$(wiretape completion bash)"', "completion zsh", "completion fish"),
    "version": ("version", "--version", "-V"),
    **{command.name: command.examples for command in WINGS_COMMANDS},
    **{path: examples for path, (_, examples) in _CHILDREN.items()},
}  # fmt: skip
"""Three examples for each command, without the word `wiretape` where they begin with it."""


def described(path: str, command: click.Command) -> click.Command:
    """Return a command with its summary and its examples, and its own commands, too."""
    command.short_help = SUMMARIES.get(path, command.short_help)
    if path in EXAMPLES:
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {command_line(command_)}" for command_ in EXAMPLES[path])
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            described(f"{path} {name}", child)
    return command


def command_line(example: str) -> str:
    return example if example.startswith(("eval ", "WIRETAPE_DB=")) else f"wiretape {example}"

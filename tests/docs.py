"""The generated parts of the README: each function prints one, from the code that it documents."""

import click
from click.testing import CliRunner
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

import viewer.cli
from recorder.decode.outcome import FLAGS
from recorder.relay.providers import WELL_KNOWN
from recorder.tape.schema import measures, metadata

WIDTH = 100
_MEASURED = ("connect", "ttfb", "ttf_byte", "ttfc", "ttft", "ttfo", "ttf_content", "thinking", "ttst", "latency")
_MEASURED += (
    "duration",
    "tail",
    "max_stall",
    "max_silence",
    "tpot",
    "tpot_est",
    "tpot_adj",
    "icl_mean",
    "icl_p50",
    "icl_p90",
)
_MEASURED += ("icl_p99", "icl_max")
_OTHERS = ("tps_user", "e2e_tps", "tokens_per_chunk", "coalesced_fraction")
_INHERITED = {
    "icl_p50": "median of the gaps between output chunks",
    "icl_p90": "their 90th percentile, linear interpolation",
    "icl_p99": "their 99th percentile",
    "icl_max": "the longest of them",
}


def help_texts() -> str:
    """Every command's `--help`."""
    return "".join(_help(viewer.cli.group, []))


def _help(command: click.Command, path: list[str]) -> list[str]:
    # From the top, as people ask: a command alone does not know the group's settings.
    said = CliRunner().invoke(
        viewer.cli.group, [*path, "--help"], prog_name="wiretape", terminal_width=WIDTH, max_content_width=WIDTH
    )
    found = [f"```text\n$ {' '.join(['wiretape', *path])} --help\n{said.output.rstrip()}\n```\n\n"]
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            found += _help(child, [*path, name])
    return found


def metrics() -> str:
    """The metrics, from the comments of their columns."""
    rows = ["| metric | from → to, or formula |", "|---|---|"]
    for name in _MEASURED:
        meaning = measures.c[f"{name}_ns"].comment or _INHERITED[name]
        rows.append(f"| `{name}_ms` | {meaning} |")
    rows += [f"| `{name}` | {measures.c[name].comment} |" for name in _OTHERS]
    return "\n".join(rows) + "\n"


def flags() -> str:
    """The flags and what each says."""
    rows = ["| flag | meaning |", "|---|---|"]
    return "\n".join(rows + [f"| `{name}` | {meaning} |" for name, meaning in sorted(FLAGS.items())]) + "\n"


def upstreams() -> str:
    """The well-known upstreams."""
    rows = ["| served at | upstream |", "|---|---|"]
    return "\n".join(rows + [f"| `/{name}/…` | `{url}` |" for name, url in WELL_KNOWN.items()]) + "\n"


def schema() -> str:
    """The tables as SQL, each column with its comment."""
    parts = []
    for table in metadata.sorted_tables:
        lines = str(CreateTable(table).compile(dialect=sqlite.dialect())).strip().splitlines()
        commented = [_commented(line.strip("\t"), table) for line in lines if line.strip() and "KEY (" not in line]
        parts.append(f"-- {table.comment}\n" + "\n".join(line for line in commented if line) + "\n")
    return "```sql\n" + "\n".join(parts).replace(" ,", ",") + "```\n"


def _commented(line: str, table: object) -> str:
    name = line.strip().split(" ")[0].strip('"')
    columns = {column.name: column for column in table.columns}  # type: ignore[attr-defined]
    if line.startswith(("CREATE", ")")):
        return line.rstrip()
    if name not in columns:
        return ""
    shown = f"    {line.strip()}"
    comment = columns[name].comment
    return f"{shown:<46} -- {comment}" if comment else shown

"""What the documentation says is what the code does."""

import contextlib
import doctest
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from PIL import Image, ImageSequence

import wiretape
from tests.support import forked
from tests.support.cases import each_case
from tests.support.terminal import Terminal
from wiretape.recorder import __version__
from wiretape.recorder.commands.cli import main as group
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.demo.upstream import ScriptedUpstream, answer
from wiretape.viewer.commands import topics
from wiretape.viewer.wings.replay.thread import LoopThread

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
TOPICS = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "viewer" / "help").glob("*.md"))}
TEXTS = [README, *TOPICS.values()]
SELECT = re.compile(r"^(?:SELECT|WITH)\b[^;]*;", re.MULTILINE)


def commands(command: click.Command, name: str) -> list[tuple[str, click.Command]]:
    found = [(name, command)]
    if isinstance(command, click.Group):
        for child_name, child in command.commands.items():
            found += commands(child, f"{name} {child_name}")
    return found


def all_commands() -> list[tuple[str, click.Command]]:
    import wiretape.viewer.cli  # adds the commands that read

    assert wiretape.viewer.cli.group is group
    return commands(group, "wiretape")


@each_case(("name", "command"), all_commands())
def test_every_command_and_option_has_help_and_is_listed(name: str, command: click.Command) -> None:
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert command.hidden or name == "wiretape" or f"`{name}`: " in TOPICS["commands"]


def test_the_generated_parts_of_the_texts_are_true() -> None:
    # Apart from this process: click keeps what a command was first called with.
    files = ["README.md", "recorder/tape/tables.py", *(f"viewer/help/{topic}.md" for topic in TOPICS)]
    command = [sys.executable, "-m", "cogapp", "-c", "--check", "--diff", *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout


def test_the_newest_heading_of_the_changelog_is_the_version() -> None:
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading is not None
    assert heading[1] == __version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_every_help_topic_named_in_texts_exists() -> None:
    texts = "".join([*TEXTS, (ROOT / "CHANGELOG.md").read_text("utf-8")])
    named = set(re.findall(r"`wiretape help ([a-z][\w-]+)`", texts))
    assert len(named) > 5
    assert named <= {*topics.names(), *group.commands, "ttft"}


def test_every_link_between_topics_leads_to_one() -> None:
    links = {link for text in TOPICS.values() for link in re.findall(r"\]\((?!https?:)([^)]*)\)", text)}
    assert len(links) > 20
    assert links <= {f"{topic}.md" for topic in TOPICS}


def test_a_topic_begins_with_title_and_summary() -> None:
    for topic, text in TOPICS.items():
        title, empty, summary, *_ = text.splitlines()
        assert (title[:2], empty, summary[-1] in ".?") == ("# ", "", True), topic


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len(README.split()) <= 900


def test_every_local_link_of_the_readme_works() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_readmes_film_is_short_and_small() -> None:
    (name,) = re.findall(r"\]\((\S+\.gif)\)", README)
    assert README.index(name) < README.index("```")
    assert (ROOT / name).stat().st_size <= 1_000_000
    with Image.open(ROOT / name) as film:
        durations_ms = [frame.info["duration"] for frame in ImageSequence.Iterator(film)]
    assert 5_000 <= sum(durations_ms) <= 12_000
    assert len(durations_ms) > 30


def test_every_path_named_for_contributors_exists() -> None:
    texts = README + TOPICS["architecture"] + (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`((?:recorder|viewer|migrations)/[\w/.]*)`", texts)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


SHOWN = [
    line.split("  #")[0].strip()
    for text in TEXTS
    for block in re.findall(r"<!-- after the demo -->\n```sh\n(.*?)```", text, re.DOTALL)
    for line in block.splitlines()
]
SHOWN += [line.removeprefix("$ ") for line in README.splitlines() if line.startswith("$ ")]
SHOWN += [f".venv/bin/{command}" for command in sorted(set(re.findall(r"`(wiretape help \w+)`", README)))]
SQL = re.findall(r"```sql\n(.*?)```", README + TOPICS["python"], re.DOTALL)
QUERIES = sorted({query for block in SQL for query in SELECT.findall(block)})


@pytest.fixture
def place(demo: tuple[Path, str], tmp_path: Path) -> Path:
    """A folder in which the demo has recorded its tape."""
    shutil.copy(demo[0], tmp_path / "demo.db")
    return tmp_path


@pytest.mark.parametrize("query", QUERIES)
def test_the_readmes_queries_have_answers_on_the_demo(query: str, place: Path) -> None:
    with closing(sqlite3.connect(f"file:{place}/demo.db?mode=ro", uri=True)) as connection:
        assert connection.execute(query).fetchall()


def test_the_readmes_failure_queries_cover_generations() -> None:
    counting = [query for query in QUERIES if "outcome NOT IN" in query]
    assert counting
    assert all(f"operation IN {GENERATIONS}" in query for query in counting)


@pytest.mark.parametrize("command", sorted({command.removeprefix(".venv/bin/") for command in SHOWN}))
def test_every_documented_command_works_on_the_demo(command: str, place: Path) -> None:
    program, *arguments = shlex.split(command)
    assert program == "wiretape"
    if arguments[0] == "view":
        with Terminal([*forked.CLI, *arguments], directory=place) as terminal:
            terminal.wait_for("demo-stall")
            terminal.press("qq")
            assert terminal.ended() == 0
        return
    with contextlib.chdir(place):
        result = CliRunner().invoke(group, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout or (place / arguments[arguments.index("-o") + 1]).stat().st_size


OUTPUTS = re.findall(r"<!-- after the demo -->\n```sh\n.venv/bin/(.*?)\n```\n```text\n(.*?)```", README, re.DOTALL)


def without_numbers(text: str) -> list[str]:
    """Return the lines without numbers and bars, which differ between two demos, and without their alignment."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|[█▏▎▍▌▋▊▉]", "", text)
    return [" ".join(re.sub(r"[+−-]?\d[\d,.]*", "0", line).split()) for line in plain.splitlines()]


@pytest.mark.parametrize(("command", "shown"), OUTPUTS)
def test_every_output_in_the_readme_is_printed(command: str, shown: str, place: Path) -> None:
    with Terminal([*forked.CLI, *shlex.split(command)[1:]], directory=place, columns=80) as terminal:
        assert terminal.ended() == 0
        lines = iter(without_numbers(terminal.sent.decode()))
    assert [line for line in without_numbers(shown) if line not in lines] == []


def test_the_documented_python_works_on_the_demo(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = re.findall(r"```python\n(import wiretape.*?)```", TOPICS["python"], re.DOTALL)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(ROOT / ".package")  # as the wheel has it
    values: list[dict[str, Any]] = []
    for code in codes:
        values.append({})
        exec(code, values[-1])
    reading, sessions, minutes = values
    assert len(reading["frame"]) == 18
    assert sessions["shares"].sum(axis=1).le(1.001).all()
    assert sessions["shares"]["stalled_ms"].max() > 0.2
    assert minutes["minutes"]["count"].sum() == len(minutes["frame"]) == 15


def test_the_documented_recording_in_python_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = re.findall(r"```python\n(import openai, wiretape.*?)```", TOPICS["python"], re.DOTALL)
    assert len(codes) == 2
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}
    completion = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5", "choices": [choice],
                  "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}  # fmt: skip
    scene = answer([(0.0, json.dumps(completion).encode())], content_type="application/json", framing="length")
    thread = LoopThread("upstream")
    api = ScriptedUpstream(lambda _: scene)
    thread.call(api.__aenter__())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{api.url}/v1")
    for code in codes:
        names: dict[str, Any] = {}
        exec(code.replace('upstream="openai"', f'upstream="openai={api.url}"'), names)
        outcome, _, tokens = capsys.readouterr().out.split()
        assert (outcome, tokens) == ("complete", "2")
        names["client"].close()
    assert len(names["frame"]) == 1
    thread.call(api.__aexit__())
    thread.close(10)


def test_the_rules_of_the_topic_on_ci_are_read(place: Path) -> None:
    (rules,) = re.findall(r"```toml\n(.*?)```", TOPICS["ci"], re.DOTALL)
    (place / "rules.toml").write_text(rules)
    done = forked.run(["check", "--db", place / "demo.db", "--rules", place / "rules.toml"])
    assert (done.returncode, done.stdout.count("ttft.p95")) == (3, 1), done.stderr


def test_the_test_of_the_readme_passes_on_its_tape(place: Path) -> None:
    (code,) = re.findall(r"```python\n(# the tape: wiretape .*?)```", README, re.DOTALL)
    cut, _, _ = code.removeprefix("# the tape: wiretape ").partition("\n")
    with forked.Forked([*forked.CLI, *shlex.split(cut)], cwd=place) as process:
        assert process.wait(60) == 0
    slower = code.replace("speed=1", "speed=0.1").replace("timeout=1)", "timeout=4)")
    assert slower.count("speed=0.1") == slower.count("timeout=4)") == 1
    # The stall is longer than the timeout by 20 s instead of 1.4 s: on a loaded machine, the client may be that late.
    # The timeout is longer than all waits before it, of 2 s.
    (place / "test_example.py").write_text(slower, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_example.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert re.search(r"^1 passed", done.stdout, re.MULTILINE), done.stdout


def test_the_packages_help_begins_with_a_true_example(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    _, _, example = str(wiretape.__doc__).partition("\n\n")
    assert example.startswith("    >>> import wiretape\n")
    assert doctest.testmod(wiretape) == doctest.TestResults(failed=0, attempted=6)


@pytest.mark.parametrize(
    "module", ["wiretape.recorder.commands.cli", "wiretape.viewer.cli", "wiretape.recorder.tape.writer"]
)
def test_importing_commands_or_the_writer_loads_nothing_heavy(module: str) -> None:
    heavy = "pandas textual httpx brotli backports.zstd compression.zstd"
    heavy += " sqlalchemy alembic" if module.endswith("cli") else ""
    code = f"import sys, {module}; print([name for name in {heavy.split()!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == "[]\n"

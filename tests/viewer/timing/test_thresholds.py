"""Thresholds: where they come from, which source is heeded first, and what is said of wrong ones."""

from pathlib import Path

import click
import pytest

from tests.viewer.commanding import run
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.timing.thresholds import read, user_file


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without any configuration, and a home without one."""
    for name in ("STALL_MS", "BURST_CHUNKS", "BURST_SHARE", "BURST_READS", "BURST_WINDOW"):
        monkeypatch.delenv(f"WIRETAPE_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_any_source_they_are_the_defaults() -> None:
    assert read({}) == Thresholds() == Thresholds(2000, 20, 0.8, 2, 0.05)
    assert Thresholds(stall_ms=0.5).stall_ns == 500_000


def test_each_source_is_heeded_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    write(user_file(), "[thresholds]\nstall_ms = 1\nburst_chunks = 1\nburst_share = 0.1\nburst_reads = 1\n")
    write(Path(".wiretape.toml"), "[thresholds]\nstall_ms = 2\nburst_chunks = 2\nburst_share = 0.2\n")
    monkeypatch.setenv("WIRETAPE_STALL_MS", "3.5")
    monkeypatch.setenv("WIRETAPE_BURST_CHUNKS", "3")
    assert read({"stall_ms": "4", "burst_reads": None}) == Thresholds(4, 3, 0.2, 1, 0.05)


def test_the_help_says_that_lists_and_filters_go_by_the_flags_of_the_tape(tape: Path) -> None:
    said = " ".join(run(tape, "show", "--help").stdout.split())
    assert "Lists, filters and --format json go by the tape's flags, whatever the limits. [default: 0.05]" in said


def test_an_empty_variable_and_a_file_about_something_else_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRETAPE_STALL_MS", "")
    write(Path(".wiretape.toml"), '\ufeffslo = "ttft<1s"\n[views]\nslow = "ttft>1s"\n')
    assert read({}) == Thresholds()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stall_ms": "-1"}, "--stall-ms is '-1': it must be a number above 0"),
        ({"stall_ms": "nan"}, "--stall-ms is 'nan'"),
        ({"stall_ms": "inf"}, "--stall-ms is 'inf'"),
        ({"burst_chunks": "2.5"}, "--burst-chunks is '2.5': it must be a whole number above 0"),
        ({"stall_ms": "1e305"}, "--stall-ms is '1e305': it must be a number above 0, at most 1,000,000,000"),
        ({"burst_reads": "9" * 400}, "--burst-reads is '9"),
        ({"burst_share": "1.1"}, "--burst-share is '1.1': it must be a number above 0, at most 1"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str | None], said: str) -> None:
    with pytest.raises(click.UsageError, match="^" + said.replace(".", r"\.")):
        read(given)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[thresholds]\nstall = 1\n",
            r"stall under \[thresholds\] in \.wiretape\.toml is no threshold: there are stall_ms, ",
        ),
        (
            "[thresholds]\nstall_ms = true\n",
            r"stall_ms under \[thresholds\] in \.wiretape\.toml is True: it must be a number",
        ),
        ("[thresholds]\nburst_chunks = 2.0\n", "is 2.0: it must be a whole number"),
        ("[thresholds]\nburst_reads = [1]\n", "it must be a whole number"),
        ("[thresholds\n", r"^\.wiretape\.toml is no TOML: "),
        ("a = " + "[" * 9000, r"^\.wiretape\.toml is no TOML: "),
        ("[threshold]\nstall_ms = 2\n", r"^threshold in \.wiretape\.toml is no setting: did you mean thresholds\?$"),
        ('db = "t.db"\n', r"^db in \.wiretape\.toml is no setting: there are theme, slo, keys, "),
        ("thresholds = 3\n", r"^thresholds in \.wiretape\.toml is no table"),
        ('[thresholds]\nstall_ms = "\\u001b[2J"\n', "is '.x1b"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(text: str, said: str) -> None:
    write(Path(".wiretape.toml"), text)
    with pytest.raises(click.UsageError, match=said):
        read({"stall_ms": "5"})


def test_a_wrong_variable_is_named_and_so_is_a_file_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".wiretape.toml").mkdir()
    with pytest.raises(click.UsageError, match=r"^\.wiretape\.toml cannot be read"):
        read({})
    monkeypatch.setenv("WIRETAPE_BURST_WINDOW", "wide")
    with pytest.raises(
        click.UsageError, match=r"^WIRETAPE_BURST_WINDOW is 'wide': it must be a number above 0, at most 1$"
    ):
        read({})


def test_a_command_says_them_as_a_usage_error(tape: Path) -> None:
    assert "--stall-ms is 'x'" in run(tape, "show", "@", "--stall-ms", "x", code=2).stderr

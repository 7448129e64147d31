"""What reaches terminals without UTF-8, or of an unknown width."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click
import pytest

from tests.support.commands import on_terminal
from tests.support.sample_tape import frames, recorded
from wiretape.recorder import terminals

IN_C = {"LC_ALL": "C", "LANG": "en_US.UTF-8"}


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A stream to a pseudo-terminal, and the descriptor at its other end."""
    outer, inner = pty.openpty()
    with open(inner, "w", encoding="utf-8") as stream:
        yield stream, outer
    os.close(outer)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_terminal_without_utf8_gets_similar_signs(
    terminal: tuple[TextIO, int], encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    stream, outer = terminal
    stream.reconfigure(encoding=encoding)  # type: ignore[attr-defined]
    terminals.adapt(stream)
    print("a → b … ·", file=stream, end=" ")
    click.echo("−1 é 漢", file=stream, nl=False)
    stream.flush()
    assert os.read(outer, 99) == b"a > b ~ . -1 ? ?"


def test_a_terminal_of_another_encoding_keeps_what_it_has(
    terminal: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.ISO-8859-1")
    stream, outer = terminal
    stream.reconfigure(encoding="iso-8859-1")  # type: ignore[attr-defined]
    terminals.adapt(stream)
    print("café → tea", file=stream, end="", flush=True)
    assert os.read(outer, 99) == "café > tea".encode("latin-1")


def test_help_and_definitions_are_ascii_in_a_c_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IN_C.items():
        monkeypatch.setenv(name, value)
    for words in (["stats", "--help"], ["db", "schema"], ["help"]):
        output = on_terminal(tmp_path / "tape.db", *words)
        assert len(output) > 100
        assert output.isascii()


def test_a_width_of_no_columns_is_an_unknown_width(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "tape.db", list(frames()))
    for words in (["ls"], ["show", "@"], ["stats"]):
        assert len(on_terminal(tape, *words, columns=0)) > 100


def test_a_containers_first_process_hears_signals_while_starting() -> None:
    script = """
import os, signal
own, os.getpid = os.getpid(), lambda: 1
import wiretape.viewer.cli
os.kill(own, signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == 128 + signal.SIGTERM

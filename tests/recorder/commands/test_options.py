"""Parsers of the recording commands' options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.support.cases import each_case
from wiretape.recorder.commands import options

NONE: frozenset[str] = frozenset()


@each_case(
    ("text", "address"),
    [
        ("127.0.0.1:8377", ("127.0.0.1", 8377)),
        (":0", ("127.0.0.1", 0)),
        ("8377", ("127.0.0.1", 8377)),
        ("localhost:1", ("127.0.0.1", 1)),
        ("[::1]:2", ("::1", 2)),
        ("127.5.5.5:3", ("127.5.5.5", 3)),
    ],
)
def test_loopback_is_listened_on_by_any_of_its_names(text: str, address: tuple[str, int]) -> None:
    assert options.read_listen(text, NONE) == address


@each_case("text", ["", "x", "example.test:80", "127.0.0.1", "127.0.0.1:65536", "::1:80", "127.0.0.1:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        options.read_listen(text, NONE)


@pytest.mark.parametrize("text", ["0.0.0.0:80", "192.168.0.1:80", "[::]:80"])
def test_a_public_address_needs_an_allowed_host(text: str) -> None:
    with pytest.raises(click.BadParameter, match="--allow-host"):
        options.read_listen(text, NONE)
    assert options.read_listen(text, frozenset({"box.test"}))[1] == 80


def test_without_an_upstream_the_well_known_ones_are_served() -> None:
    assert {upstream.name for upstream in options.read_upstreams(())} >= {"openai", "anthropic", "ollama"}


def test_upstreams_have_their_places() -> None:
    upstreams = options.read_upstreams(("http://a.test", "b=http://b.test"))
    assert [upstream.name for upstream in upstreams] == ["", "b"]


@each_case(
    ("read", "given"),
    [
        (options.read_upstreams, ("http://a.test", "http://b.test")),
        (options.read_upstreams, ("a=http://a.test", "a=http://b.test")),
        (options.read_upstreams, ("a.test",)),
        (options.read_labels, ("run",)),
        (options.read_labels, ("a b=1",)),
        (options.read_labels, ("=1",)),
        (options.read_labels, ("a=" + "x" * 257,)),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(read: Callable[[tuple[str, ...]], Any], given: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter):
        read(given)


def test_the_last_label_of_a_name_counts() -> None:
    assert options.read_labels(("a=1", "b=x=y, z", "a=")) == {"a": "", "b": "x=y, z"}


def test_options_may_stand_in_the_environment() -> None:
    @click.command()
    @options.recording(options.intercepting)
    def command(common: options.RecordingValues) -> None:
        click.echo(f"{common.db} {common.upstreams}")

    variables = {"WIRETAPE_DB": "/t.db", "WIRETAPE_UPSTREAM": "http://a.test b=http://b.test"}
    result = CliRunner().invoke(command, env=variables)
    assert result.output == "/t.db ('http://a.test', 'b=http://b.test')\n"


def test_the_tape_has_a_given_or_default_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert options.tape_path(tmp_path / "x") == tmp_path / "x"
    monkeypatch.delenv("WIRETAPE_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert options.tape_path(None) == tmp_path / "wiretape" / "tape.db"


def test_an_age_beyond_all_calendars_is_wrong_usage() -> None:
    with pytest.raises(click.BadParameter, match="is too long"):
        options.read_age("999999999w")


def test_the_default_tape_is_in_the_users_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WIRETAPE_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert options.tape_path(None) == tmp_path / "wiretape" / "tape.db"

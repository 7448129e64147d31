"""Completion: the candidates for a word, without errors and side effects."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.support.forked import ROOT
from tests.support.sample_tape import COMPLETE, FAILED, HOSTILE, LIVE, TOOLS, begin
from tests.support.session_tape import KEY, OTHER, session_tape
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.store import Store
from wiretape.viewer.cli import group
from wiretape.viewer.commands import completion, topics
from wiretape.viewer.commands.completion import Completer, Item
from wiretape.viewer.query.parser import parse
from wiretape.viewer.stats import check, metrics


def offered(completer: Completer, tape: Path | None, typed: str = "", **params: object) -> list[Item]:
    command = click.Command("x")
    context = click.Context(command, resilient_parsing=True)
    context.params.update(db=tape, **params)
    return completer(context, click.Option(["--x"]), typed)


def values(completer: Completer, tape: Path | None, typed: str = "", **params: object) -> list[str]:
    return [item.value for item in offered(completer, tape, typed, **params)]


def test_the_latest_ids_are_offered_with_what_they_are(tape: Path) -> None:
    help_by_id = {item.value: item.help for item in offered(completion.ids, tape)}
    assert list(help_by_id)[:6] == ["@", "@err", "@stall", "@slow", "@s", LIVE]
    assert help_by_id[TOOLS] == "12:00 gpt-x-mini 3.1 s no_usage stall"
    assert help_by_id[FAILED] == "12:00 gpt-x-mini 0.1 s error_event no_done no_finish no_usage single_chunk"
    assert help_by_id[LIVE] == "12:00 gpt-x open"


def test_ids_continue_typed_text_and_appear_once(tape: Path) -> None:
    assert values(completion.ids, tape, "aaaa") == [TOOLS, COMPLETE]
    assert values(completion.ids, tape, "aaaa", ids=(TOOLS,)) == [COMPLETE]
    assert values(completion.ids, tape, "@e") == ["@err"]


def test_sessions_are_offered_by_their_keys_the_newest_first(tmp_path: Path) -> None:
    sessions = session_tape(tmp_path / "sessions.db")
    assert values(completion.ids, sessions, "s:") == [f"s:{OTHER}", f"s:{KEY}"]
    assert values(completion.ids, sessions, "s:agent-o") == [f"s:{KEY}"]
    assert values(completion.ids, sessions, "@s") == ["@stall", "@slow", "@s"]


def test_help_offers_topics_commands_and_a_groups_commands() -> None:
    def typed(*words: str) -> list[str]:
        context = click.Context(group, resilient_parsing=True)
        context.params["words"] = words
        return [item.value for item in completion.topics(context, click.Argument(["topics"]), "")]

    assert typed() == [*dict.fromkeys([*topics.names(), *sorted(group.commands)])]
    assert {"check", "merge"} < set(typed("db"))
    assert typed("filters") == typed("ls") == []


def test_a_filter_is_offered_fields_and_then_their_values(tape: Path) -> None:
    assert "model:" in values(completion.filters, tape)
    assert values(completion.filters, tape, "outcome:tr") == ["outcome:truncated"]
    assert values(completion.filters, tape, "ttft>1s -(is:ok or flag:sta") == ["ttft>1s -(is:ok or flag:stall"]
    assert values(completion.filters, tape, "model:gpt-x-mini,") == [
        "model:gpt-x-mini,gpt-x",
        "model:gpt-x-mini,gpt-x-mini",
    ]
    assert values(completion.filters, tape, "host:") == ["host:api.example.com"]
    assert values(completion.filters, tape, "status:4") == ["status:429"]
    assert values(completion.filters, tape, "label:") == ["label:k=", "label:run="]
    assert values(completion.filters, tape, "label:run=") == ["label:run=a7"]
    assert values(completion.filters, tape, "since:t") == ["since:today"]
    assert values(completion.filters, tape, "ttft>") == []
    assert values(completion.filters, tape, 'text:"rate mod') == []


def test_every_whole_completion_of_a_filter_can_be_read(tape: Path) -> None:
    for field in values(completion.filters, tape):
        for item in offered(completion.filters, tape, field):
            if item.help is None and not item.value.endswith(("=", ":")):
                parse(item.value)


def test_options_are_offered_the_words_that_they_know(tape: Path) -> None:
    assert values(completion.models, tape) == ["gpt-x", "gpt-x-mini"]
    assert "ttft" in values(completion.sorts, tape)
    assert values(completion.sorts, tape, "-max_") == [
        "-max_gap", "-max_silence", "-max_output_silence", "-max_event_silence",
    ]  # fmt: skip
    assert values(completion.groups, tape, "model,") == [
        *(f"model,{name}" for name in metrics.GROUPS if name != "model"),
        "model,input_tokens:10k", "model,label.k", "model,label.run",
    ]  # fmt: skip
    assert metrics.groups(values(completion.groups, tape, "model,label.r")[0]) == ("model", "label.run")
    assert values(completion.quantities, tape) == list(metrics.QUANTITIES)
    assert values(completion.tools, tape, "vl") == ["vllm", "vllm-0.32"]
    assert values(completion.figures, tape, "tt") == ["ttft.", "ttfc.", "ttfo.", "ttf_event."]
    assert values(completion.figures, tape, "read_gap.m") == ["read_gap.mean=", "read_gap.min=", "read_gap.max="]
    limits = {"n=": "1", "ttft.n=": "1", "error_rate=": "1%"}
    for figure in (*values(completion.figures, tape, "ttft."), "n=", "error_rate="):
        assert check.rule("max", figure + limits.get(figure, "1s"))


ALL = [value for value in vars(completion).values() if getattr(value, "__name__", "") == "complete"]


def test_there_are_completers() -> None:
    assert len(ALL) == 11


def assert_harmless(tape: Path | None) -> None:
    typed = [
        "",
        "@",
        "run=",
        "model:",
        "label:",
        "label:k=",
        "path:",
        "host:",
        "ttft.",
        "model,",
        "x" * 5000,
        "\udcff\n'\"$(",
    ]
    for completer in ALL:
        for text in typed:
            for item in offered(completer, tape, text):
                new = item.value.removeprefix(text)
                assert new.isprintable()
                assert not set(new) & set(" \"'`$;&|<>(){}[]*?!#~\\,")
                assert item.help is None or item.help.isprintable()


@pytest.mark.parametrize("kind", ["none", "directory", "text", "empty", "theirs", "locked", "views", "shape"])
def test_on_any_trouble_nothing_of_the_tape_is_offered(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    if kind == "directory":
        path.mkdir()
    elif kind in ("text", "empty"):
        path.write_text("not a tape" if kind == "text" else "")
    elif kind != "none":
        with sqlite3.connect(path) as connection:
            if kind == "shape":
                connection.execute("CREATE TABLE exchanges (no, id, started_at, labels, request_model)")
                connection.execute("CREATE TABLE measures (exchange_no, model, duration_ns, outcome, flags)")
                connection.execute("INSERT INTO exchanges VALUES (1, x'ff', 7, '[1', 9)")
            elif kind == "views":
                endless = "WITH RECURSIVE a(no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM a) SELECT no, no id FROM a"
                connection.execute(f"CREATE VIEW exchanges AS {endless}")
                connection.execute("CREATE TABLE measures (exchange_no, model)")
            else:
                connection.execute("CREATE TABLE exchanges (no, id)")
        if kind == "locked":
            connection.execute("BEGIN EXCLUSIVE")
    assert [value for value in values(completion.ids, path) if not value.startswith("@")] == []
    assert values(completion.labels, path) == []
    assert_harmless(path)
    if kind not in ("none", "directory", "text", "empty"):
        connection.close()


def test_hostile_text_is_not_offered(tape: Path, tmp_path: Path) -> None:
    assert_harmless(tape)
    mean = [
        "$(reboot)",
        "a;b",
        "a b",
        "a,b",
        "-rf",
        "~root",
        "=ls",
        "a'b",
        'a"b',
        "x\ny",
        "\x1b[2J",
        "a*",
        "\u202ex",
        "",
        HOSTILE,
    ]
    path = tmp_path / "mean.db"
    with file.writing(path, "a test") as connection:
        store = Store(connection)
        store.begin_session(journal.Session("u", "0", 1, None, "http://127.0.0.1:1", [], "2026-03-01T12:00:00.000000Z"))
        frames = []
        for at, text in enumerate(mean):
            body = json.dumps({"model": text}).encode()
            frames.append(begin(f"{at:016x}", at, body, f"/{text}", k=text, **{text: "v"}))
        store.append(frames)
    assert_harmless(path)
    assert values(completion.models, path) == []
    assert values(completion.labels, path, "k=") == []
    assert "\n" not in "".join(item.help or "" for item in offered(completion.ids, path))
    with sqlite3.connect(path) as writer:
        writer.executemany("UPDATE exchanges SET id = ? WHERE no = ?", [(text, no) for no, text in enumerate(mean, 1)])
    writer.close()
    assert values(completion.ids, path) == ["@", "@err", "@stall", "@slow", "@s"]


def test_asking_leaves_nothing_behind(tape: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(tape.read_bytes())
    assert values(completion.models, copy)
    assert [path.name for path in tmp_path.iterdir()] == ["copy.db"]


def test_asking_loads_nothing_but_click_and_the_standard_library(tape: Path) -> None:
    code = (
        "import atexit, os, sys\n"
        "from wiretape.viewer.cli import main\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "told = lambda: {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names\n"
        "atexit.register(lambda: print(sorted(told() - {'_distutils_hack'}), file=sys.stderr))\n"
        "main()\n"
    )
    for words in ("wiretape show ", "wiretape ls -f model:", "wiretape check --max ttft.", "wiretape ls --label "):
        place = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        environ = {"_WIRETAPE_COMPLETE": "bash_complete", **place, "WIRETAPE_DB": str(tape)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=os.environ | environ
        )
        assert done.stdout.startswith("plain,")
        assert done.stderr == "['__main__', 'click', 'wiretape']\n"

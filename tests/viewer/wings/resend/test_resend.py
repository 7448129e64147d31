"""`resend` against an API of loopback: what arrives there, what the tape has of it, and what leaves it out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run
from tests.support.sample_tape import DONE, event
from tests.support.session_tape import KEY, SECOND, session_tape
from wiretape.recorder.demo.upstream import Scene, ScriptedUpstream, answer
from wiretape.recorder.errors import NotFound
from wiretape.viewer.query import coverage, parser
from wiretape.viewer.wings.replay.thread import LoopThread

SECRET = "sk-fresh-0123456789abcdefghij"


class Api:
    """An API in a thread, which redirects requests for the model `moved`, and answers others."""

    def __init__(self) -> None:
        self.thread = LoopThread("api")
        self.server = ScriptedUpstream(self._choose)
        self.thread.call(self.server.__aenter__())

    def _choose(self, request: Any) -> Scene:
        if b"moved" in request.body:
            return answer([(0, b"{}")], status=307, headers=[("location", "/elsewhere")])
        usage = event(usage={"prompt_tokens": 9000, "completion_tokens": 1, "total_tokens": 9001})
        return answer([(0.0, event({"content": "a"}, "stop") + usage + DONE)])

    def close(self) -> None:
        self.thread.call(self.server.__aexit__())
        self.thread.close(10)


@pytest.fixture
def api() -> Iterator[Api]:
    yield (api := Api())
    api.close()


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return session_tape(tmp_path / "tape.db")


def rows(tape: Path, *arguments: str) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = json.loads(run(tape, "ls", *arguments, "--format", "json").stdout)
    return values


def test_a_session_is_sent_recorded_and_compared(api: Api, tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESH", SECRET)
    before = [row["id"] for row in rows(tape)]
    target = f"fresh={api.server.url}"
    sent = run(tape, "resend", f"s:{KEY}", "--to", target, "--key-from", "FRESH", "--rate", "50", "-n", "2", "--yes")
    resent = rows(
        tape, "-f", "has:resent_from", "--columns", "id,resent_from,resent_no,outcome,upstream_name,conversation"
    )
    assert len(sent.stdout.splitlines()) == 1 + len(resent) == 7
    assert {(row["resent_from"], row["resent_no"]) for row in resent} == {
        (id, number) for id in before[1:] for number in (1, 2)
    }
    assert {(row["outcome"], row["upstream_name"]) for row in resent} == {("complete", "fresh")}
    (session,) = {row["conversation"] for row in resent}
    assert session.startswith("resend=")
    assert SECRET not in sent.output
    headers = [dict(request.headers) for request in api.server.requests]
    assert {one[b"authorization"] for one in headers} == {f"Bearer {SECRET}".encode()}
    assert not any(SECRET.encode() in file.read_bytes() for file in tape.parent.iterdir())
    sums = json.loads(run(tape, "compare", "--pairs", "--format", "json").stdout)
    counts = {row["metric"]: row["n"] for row in sums}
    assert (counts["pairs"], counts["unpaired_a"], counts["unpaired_b"], counts["gateway_total_ms"]) == (6, 0, 0, 0)
    worked_out = rows(tape, "-f", "has:resent_from", "--columns", "turn,cache_verdict,duplicate_of,continues")
    assert {value for row in worked_out for value in row.values()} == {None}
    assert [
        row["id"] for row in rows(tape, "--columns", "id", "--sort", "started_at", "-f", "-has:resent_from")
    ] == before[::-1]
    newest = run(tape, "show", "@s", "--part", "time", "--format", "json").stdout
    assert "resend=" not in newest


def test_a_budget_ends_a_run_and_redirects_are_answers(
    api: Api, tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wiretape").mkdir()
    prices = '[[prices]]\nmodel = "gpt-x"\ninput = 1000\noutput = 0\n'
    (tmp_path / "wiretape" / "config.toml").write_text(prices, "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    # The answers cost more than the recorded one.
    sent = run(tape, "resend", SECOND, "--to", api.server.url, "-n", "3", "--max-cost", "3", "--yes", code=3)
    assert len(api.server.requests) == 1
    assert "2 requests left" in sent.output
    asked = run(tape, "resend", SECOND, "--to", api.server.url, "--model", "moved", "--yes", code=1)
    assert len(api.server.requests) == 2
    assert ("307" in asked.stdout, "http_error" in asked.stdout) == (True, True)


def test_nothing_is_sent_before_it_may_be(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    here = ["--to", "http://127.0.0.1:9"]
    for arguments, words in {
        ("--to", "openai", "--yes"): "OPENAI_API_KEY is not set",
        (*here,): "add --yes",
        (*here, "--max-requests", "2", "-n", "3", "--yes"): "raise --max-requests",
        (*here, "--max-cost", "1", "--yes"): "has no price",
        (*here, "--rate", "1", "--every", "1s", "--yes"): "exclude each other",
    }.items():
        assert words in run(tape, "resend", "@s", *arguments, code=2).output, arguments
    assert "no key" in run(tape, "resend", "@s", *here, "--dry-run").output
    nothing = run(tape, "resend", "-f", "model:nobody", "--yes", code=1)
    assert isinstance(nothing.exception, NotFound)
    assert rows(tape, "-f", "has:resent_from") == []


@pytest.mark.parametrize(
    ("text", "is_asked"),
    [
        (None, False),
        ("model:m", False),
        ("has:resent_from", True),
        ("-has:resent_from", True),
        ("label:resent=a or is:ok", True),
        ("label:run=a", False),
        ("resent_no>1", True),
    ],
)
def test_a_filter_asks_for_resent_exchanges_by_name(text: str | None, is_asked: bool) -> None:
    filter = None if text is None else parser.parse(text)
    assert (coverage.without_resent(filter) == filter) == is_asked

"""The command `report`, on the scenes of the demo and on hostile recordings."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.cases import each_case
from tests.support.commands import on_terminal, run
from tests.support.sample_tape import (
    COMPLETE,
    COMPLETE_READS,
    LIMITED,
    LIMITED_READS,
    LIVE,
    ODD,
    TOOLS,
    TRUNCATED,
    begin,
    end,
    recorded,
    response,
)  # fmt: skip
from tests.support.session_tape import ELSEWHERE, KEY, session_tape
from wiretape.recorder import __version__
from wiretape.viewer.sessions import issue, report

SCENES = {
    "stall": ("upstream", r"complete, stall 2\.\d s by upstream", "complete"),
    "truncated": ("upstream", r"upstream closed the connection after 6 events, without \[DONE\] or a finish", "eof"),
    "failing": ("upstream", "upstream sent an error in mid-stream: provider_error", "provider_error"),
    "limited": ("upstream", "upstream answered 429: rate_limit_exceeded",
                ", type `requests`, retry after 20 s |"),
    "burst": ("upstream", "complete, buffered in 1 read", "burst"),
    "openai": ("none", r"complete, max gap [\d.]+ ms", "complete"),
}  # fmt: skip


def as_json(tape: Path, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(tape, "report", *arguments, "--format", "json").stdout)
    return found


def id_of(tape: Path, scene: str) -> str:
    return run(tape, "ls", "-f", f"model:demo-{scene}", "--format", "ids").stdout.strip()


@each_case("scene", list(SCENES))
def test_a_report_has_verdict_ending_and_cause(scene: str, demo: tuple[Path, str]) -> None:
    party, ending, more = SCENES[scene]
    id = id_of(demo[0], scene)
    output = run(demo[0], "report", id).stdout
    assert re.match(rf"\*\*Verdict: {party}\*\*: {ending}", output)
    assert more in output
    assert f"| exchange | `{id}`, began 20" in output
    assert f"| model | `demo-{scene}`, chat, API " in output
    assert "| upstream | a local server |" in output
    assert f"| wiretape | {__version__}, recorded by {__version__} |" in output
    assert f"`wiretape db cut {id} -o report.jsonl`" in output
    assert len(output.splitlines()) <= issue.MOST_LINES
    assert not re.search(
        r"127\.0\.0\.1|localhost|Play the scene|Bearer|Provider disconnected|Once upon|model begins", output
    )


def test_a_stalls_timeline_has_beginning_and_party(demo: tuple[Path, str]) -> None:
    (entry,) = as_json(demo[0], "@stall")["exchanges"]
    assert [moment["what"].split(" of ")[0] for moment in entry["timeline"]] == [
        "request", "connected", "response head, status 200", "first output", "silence", "last output",
        "end: the HTTP body ended as framed",
    ]  # fmt: skip
    assert re.search(r"; upstream silent, relay [\d.]+ ms, no wait for the client$", entry["evidence"][0])
    assert [moment["at_ms"] for moment in entry["timeline"]] == sorted(moment["at_ms"] for moment in entry["timeline"])


def test_only_reports_with_text_have_message_and_answer(demo: tuple[Path, str]) -> None:
    failing = id_of(demo[0], "failing")
    output = run(demo[0], "report", failing, "--with-text").stdout
    assert "\nError message:\n\n    Provider disconnected\n" in output
    assert "\nAnswer:\n\n    It all looked good until\n" in output
    (entry,) = as_json(demo[0], failing)["exchanges"]
    assert (entry["error_message"], entry["answer"]) == (None, None)


def test_a_filtered_report_lists_failed_stalled_and_slowest(demo: tuple[Path, str]) -> None:
    found = as_json(demo[0], "-f", "model:demo-*")
    assert (found["kind"], found["total"], found["verdict"]) == ("filter", 19, "upstream")
    assert found["endings"] == "15 complete · 4 failed: 2 × 429, 1 cut by upstream, 1 error in mid-stream"
    reasons = {entry["model"]: entry["reasons"] for entry in found["exchanges"]}
    assert len(reasons) == report.MOST_EXCHANGES
    assert (reasons["demo-stall"], reasons["demo-failing"]) == (["stalled"], ["failed"])
    output = run(demo[0], "report", "-f", "model:demo-*").stdout
    assert output.startswith("**Verdict: upstream**: 15 complete · 4 failed")
    assert len(output.splitlines()) <= issue.MOST_LINES
    assert "model:demo" not in output


@pytest.mark.parametrize("reference", [f"s:{KEY[:9]}", "@s"])
def test_a_session_is_reported_by_parts_of_time(reference: str, tmp_path: Path) -> None:
    tape = session_tape(tmp_path / "t.db")
    run(tape, "rm", ELSEWHERE, "--yes")
    output = run(tape, "report", reference).stdout
    assert output.startswith("**Verdict: upstream**: 2 complete · 1 failed: 1 × 429\n")
    assert [line for line in output.splitlines() if " % |" in line] == [
        "| stalled | 3,000.0 | 35.7 % |", "| tools | 2,000.0 | 23.8 % |", "| streaming | 1,400.0 | 16.7 % |",
        "| backoff | 1,000.0 | 11.9 % |", "| waiting | 900.0 | 10.7 % |", "| closing | 50.0 | 0.6 % |",
        "| failed | 50.0 | 0.6 % |",
    ]  # fmt: skip
    assert "| wall | 8,400.0 | at most 1 exchange at once |" in output
    assert "| turns | 2, median to the first output 450.0 ms |" in output
    found = as_json(tape, reference)
    assert (found["kind"], found["total"], found["time"]["wall_ms"]) == ("session", 3, 8400.0)
    assert [entry["reasons"] for entry in found["exchanges"]] == [["slowest"], ["failed"], ["stalled"]]
    assert not re.search(r"agent-one|Fix it|read\b.*{}|x = 1", output + json.dumps(found))


def test_the_jsons_keys_are_the_schemas(demo: tuple[Path, str]) -> None:
    found = as_json(demo[0], "@err")
    names = [*found, *(f"exchanges.{name}" for name in found["exchanges"][0])]
    assert names == [*report.schema()]


def test_a_terminal_and_a_pipe_get_the_same_text(demo: tuple[Path, str]) -> None:
    output = on_terminal(demo[0], "report", "@stall", columns=60)
    assert output.replace("\r\n", "\n") == run(demo[0], "report", "@stall").stdout


def test_nothing_of_hostile_recordings_is_quoted(tape: Path) -> None:
    for id in (ODD, TRUNCATED, TOOLS, LIVE, COMPLETE):
        output = run(tape, "report", id).stdout
        assert not re.search(r"cmd\(\)|\x1b|bold|Oslo|weather|Hel|closed mid-chunk|example\.com|sk-", output), id
    (odd,) = as_json(tape, ODD)["exchanges"]
    assert (odd["model"], odd["error_code"]) == (None, "message left out")
    assert odd["upstream"] == "a server of no known provider"
    assert any("model" in text and "left out" in text for text in odd["unknown"])


def test_an_exchange_beside_a_filter_is_refused(tape: Path) -> None:
    assert "not both" in run(tape, "report", "@", "-f", "is:ok", code=2).stderr
    assert "0 of 7 exchanges match" in str(run(tape, "report", "-f", "model:none", code=1).exception)


@pytest.fixture(scope="module")
def retried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with two attempts that a provider refused, and the third, which it answered."""
    request = json.dumps({"model": "gpt-x", "messages": []}).encode()
    sent = [
        (b"user-agent", b"OpenAI/Python 1.70.0"),
        (b"x-stainless-retry-count", b"2"),
        (b"x-api-key", b"sk-secret01"),
    ]
    answered = [(b"content-type", b"application/json"), (b"x-request-id", b"req_1"), (b"cf-ray", b"8a1b-FRA")]
    frames: list[Any] = []
    for number, (id, parts, status) in enumerate(
        [("1" * 16, LIMITED_READS, 429), ("2" * 16, LIMITED_READS, 429), ("3" * 16, COMPLETE_READS, 200)], 1
    ):
        opening = msgspec.structs.replace(begin(id, number, request), upstream="https://api.openai.com", headers=sent)
        head, *remainder = response(id, parts, status)
        headers = answered if status == 429 else [*answered[1:], (b"content-type", b"text/event-stream")]
        frames += [opening, msgspec.structs.replace(head, headers=headers), *remainder, end(id, parts)]
    return recorded(tmp_path_factory.mktemp("retried") / "tape.db", frames)


def test_retries_around_an_exchange_are_named_with_pauses(retried: Path) -> None:
    (entry,) = as_json(retried, "2222")["exchanges"]
    previous_attempts = [{"id": "1" * 16, "outcome": "http_error", "status": 429, "pause_ms": 968.5}]
    assert (entry["retries_before"], entry["attempt"]) == (previous_attempts, 3)
    assert [(retry["id"], retry["outcome"]) for retry in entry["retries_after"]] == [("3" * 16, "complete")]
    output = run(retried, "report", "2222").stdout
    sentences = (
        f"attempt 3 by the client's count; 1 before (`{'1' * 16}` http_error 429, 0.969 s apart); 1 after (`{'3' * 16}`"
    )
    assert sentences in output


def test_unknown_times_have_no_unit_and_one_is_singular(retried: Path) -> None:
    output = run(retried, "report", "2222").stdout
    assert "| times | first output –, longest silence of output –, last output –, end " in output
    assert f"| received | {len(LIMITED_READS[0][1])} bytes in 1 read; tokens: – in, – out |" in output


def test_provider_request_ids_and_client_are_named(retried: Path) -> None:
    output = run(retried, "report", "2222").stdout
    assert "| upstream | `api.openai.com` |" in output
    assert "| request ids | x-request-id `req_1`, cf-ray `8a1b-FRA` |" in output
    assert "| client | `OpenAI/Python 1.70.0` |" in output
    assert "sk-secret" not in output


def test_attempts_of_an_unrecorded_request_are_unknown(tape: Path) -> None:
    (entry,) = as_json(tape, LIMITED)["exchanges"]
    assert entry["retries_before"] == []

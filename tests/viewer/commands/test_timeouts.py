"""`timeouts` over three models that fall silent for 2, 32 and 304 s, some of whose streams never go on."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.commands import on_terminal, run
from tests.support.sample_tape import DONE, HOSTILE, MS, begin, end, event, recorded, response
from wiretape.recorder.tape import journal
from wiretape.viewer.export.frames import open_tape
from wiretape.viewer.stats import timeouts

PING = b": ping\n\n"
MODELS = {"swift": (2, None), "thinker": (32, 15), "sage": (304, 30)}
"""The longest silence of each, and the interval of its pings, in s."""


def stream(id: str, model: str, silence_ms: int, ping_s: int | None, by: str = "end") -> Iterator[journal.Frame]:
    """Yield the frames of a stream that is silent for a while; then it ends in order, or in that silence."""
    parts = [(500, event({"content": "Hm"}))]
    if ping_s is not None:
        parts += [(500 + 1000 * at, PING) for at in range(ping_s, silence_ms // 1000, ping_s)]
    if by == "end":
        usage = event(usage={"prompt_tokens": 9, "completion_tokens": 100, "total_tokens": 109})
        parts += [(500 + silence_ms, event({"content": "yes"})), (510 + silence_ms, event({}, "stop") + usage + DONE)]
    yield begin(id, 1, json.dumps({"model": model, "stream": True}).encode())
    yield from response(id, parts)
    yield msgspec.structs.replace(end(id, parts, by), end_ns=(parts[-1][0] if by == "end" else 500 + silence_ms) * MS)


def frames() -> Iterator[journal.Frame]:
    for number, (model, (silence_s, ping_s)) in enumerate(MODELS.items()):
        for place in range(25):
            lasted_ms = silence_s * 1000 * (place + 1) // 25
            yield from stream(f"{number}{place:03}{'a' * 12}", model, lasted_ms, ping_s)
        yield from stream(f"{number}900{'a' * 12}", model, 400_000, ping_s, "eof")
        yield from stream(f"{number}901{'a' * 12}", model, 500_000, ping_s, "client")
    yield from stream(f"3902{'a' * 12}", "swift", 900_003, None, "idle_timeout")


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("silent") / "tape.db", list(frames()))


def rows(tape: Path, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(tape, "timeouts", *arguments, "--format", "json").stdout)
    return found


def test_each_model_has_the_limit_that_its_silences_need(tape: Path) -> None:
    found = {
        row["group"]: row
        for row in rows(tape, "--by", "model", "--on", "output")
        if row["fits"] and row["phase"] == "later"
    }
    limits = {name: (row["limit_ms"], row["longest_good_ms"], row["keepalive_ms"]) for name, row in found.items()}
    assert limits == {
        "swift": (5000, 2000, None),
        "thinker": (45_000, 32_000, 15_000),
        "sage": (600_000, 304_000, 30_000),
    }
    assert (found["thinker"]["n"], found["thinker"]["cut"], found["thinker"]["cut_dead"]) == (27, 2, 2)
    assert found["thinker"]["saved_ms"] == 400_000 + 500_000 - 2 * 45_000


def test_a_limit_that_is_too_short_loses_whole_answers(tape: Path) -> None:
    (_, later) = rows(tape, "-f", "model:thinker", "--on", "output", "--first", "1s", "--idle", "30s")
    assert (later["cut"], later["cut_good"], later["lost_tokens"], later["fits"]) == (4, 2, 200, False)


def test_from_the_recorders_idle_timeout_on_nothing_fits(tape: Path) -> None:
    fitting = [
        row["fits"] for row in rows(tape, "--on", "bytes", "--idle", "400s,900s,2000s") if row["phase"] == "later"
    ]
    assert fitting == [True, False, False]
    fitting = [row["fits"] for row in rows(tape, "--on", "bytes", "--idle", "900s,2000s") if row["phase"] == "later"]
    assert fitting == [False, False]


def test_a_row_is_one_group_layer_phase_and_limit(tape: Path) -> None:
    found = rows(tape)
    assert len(found) == 3 * 2 * 12
    assert tuple(found[0]) == tuple(timeouts.MEANINGS)
    assert {row["group"] for row in found} == {""}
    text = run(tape, "timeouts", "--columns", "layer,limit,fits", "--format", "csv", "--idle", "1m", "--first", "90s")
    assert text.stdout.splitlines()[:3] == ["layer,limit_ms,fits", "bytes,90000.0,true", "bytes,60000.0,true"]


def test_a_terminal_shows_what_fits_and_a_plot(tape: Path) -> None:
    output = re.sub(r"\x1b\[[\d;]*m", "", on_terminal(tape, "timeouts", "--by", "model", "--on", "output", columns=100))
    lines = output.splitlines()
    assert " ".join(lines[0].split()) == "model silence n p50 s p99 s max s id limit cuts ≤ saved"
    assert " ".join(lines[6].split()) == "thinker later output 27 16.6 – 32.0 1024aaaa 45 s 12 % 14 m"
    assert "recorded with an idle timeout of 900 s" in output
    assert "15.0 s (thinker)" in output
    assert [line.split()[:2] for line in lines if line.startswith(("good", "dead"))] == [
        ["good", "25"],
        ["dead", "2"],
    ] * 3
    assert max(map(len, lines)) <= 100


def test_a_pipe_gets_no_plot_and_few_streams_are_named(tape: Path) -> None:
    text = run(tape, "timeouts", "-f", "model:swift outcome:truncated", "--on", "output", "--format", "table").stdout
    assert "n < 20: first output 1, later output 1" in text
    assert "cut, output" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--by", "model,path"), "name one group"),
        (("--by", "nothing"), "is no group"),
        (("--idle", "30"), "--idle: expected a duration"),
        (("--first", "0s"), "--first: expected limits above 0"),
        (("--on", "words"), "'words' is not one of"),
    ],
)
def test_what_cannot_be_tried_is_refused(tape: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in run(tape, "timeouts", *arguments, code=2).output.replace("Invalid value for ", "")


def test_nothing_is_said_to_be_nothing(tape: Path, tmp_path: Path) -> None:
    assert "0 of 82 exchanges match" in run(tape, "timeouts", "-f", "model:none", "--format", "table").stderr
    whole = [
        begin("e" * 16, 1, b"{}"),
        *response("e" * 16, [(1, b"{}")], type="application/json"),
        end("e" * 16, [(1, b"{}")]),
    ]
    other = recorded(tmp_path / "whole.db", whole)
    assert "none of the exchanges is a stream" in run(other, "timeouts", "--format", "table").stderr
    assert {row["n"] for row in rows(other)} == {0}


def test_a_hostile_name_of_a_group_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "tape.db", list(stream("f" * 16, HOSTILE, 3000, None)))
    assert "\x1b" not in run(tape, "timeouts", "--by", "model", "--format", "table").stdout


def test_python_gets_the_same_rows(tape: Path) -> None:
    frame = open_tape(tape).timeouts("model:thinker", by="model", on="output", idle="30s,60s")
    later = frame[frame["phase"] == "later"]
    assert later["lost_tokens"].tolist() == [200, 0]
    assert (str(frame["fits"].dtype), frame.attrs["columns"]["saved_ms"]["unit"]) == ("boolean", "ms")
    with pytest.raises(ValueError, match="name one group"):
        open_tape(tape).timeouts(by="model,path")


def test_a_server_gives_the_same_rows(tape: Path, tmp_path: Path) -> None:
    server = f"chdb:{tmp_path / 'server'}"
    run(tape, "ship", "--to", server, "--once")
    arguments = ("timeouts", "--by", "model", "--format", "csv")
    assert run(tape, *arguments, "--db", server).stdout == run(tape, *arguments).stdout


def test_a_bucket_of_tokens_is_named_by_its_range(tape: Path) -> None:
    assert {row["group"] for row in rows(tape, "--by", "input_tokens:5")} == {"5–10", None}

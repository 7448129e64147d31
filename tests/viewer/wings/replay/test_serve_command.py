"""The command `serve`, from the outside: its output and its end."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support import forked
from tests.support.commands import run, started
from tests.support.frames import until
from tests.support.sample_tape import COMPLETE, COMPLETE_READS


def test_the_base_url_is_on_stdout_and_in_files(tape: Path, tmp_path: Path) -> None:
    ready = tmp_path / "url"
    with started("serve", "--db", str(tape), "--no-wait", "--ready-file", str(ready), is_fresh=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        base = process.stdout.readline().decode()
        until(ready.exists)
        assert ready.read_text("utf-8") == base
        body = httpx.get(f"{base.strip()}/@{COMPLETE}/", trust_env=False).content
        crlf = httpx.get(f"{base.strip()}/@form=crlf,h2/@{COMPLETE}/", trust_env=False)
        process.send_signal(signal.SIGTERM)
        output, report = process.stdout.read(), process.stderr.read().decode()
        assert process.wait(60) == 0
    assert body == b"".join(data for _, data in COMPLETE_READS)
    assert not output
    assert (crlf.content, crlf.headers["x-wiretape-form"]) == (body.replace(b"\n", b"\r\n"), "crlf")
    assert "2 requests answered, 0 not recorded; writes were late" in report
    assert "form crlf: 1 answer\nwiretape: form h2: 0 answers, not for 1 (HTTP/1.1)\n" in report
    assert "no request came" not in report
    assert not [*tmp_path.glob("url*")]


@pytest.mark.parametrize(("speed", "warned"), [("0", True), ("100", False)])
def test_a_stall_left_out_is_reported_at_start(demo: tuple[Path, str], speed: str, warned: bool) -> None:
    with started("serve", "--db", str(demo[0]), "--speed", speed) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        report = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert ("2 exchanges of these stalled, which is not played: --speed 0 has no waits" in report) == warned
    assert f"may have called the API itself; wiretape run --replay {demo[0]} -- PROGRAM\n" in report


def test_an_unwritable_ready_file_is_one_line(tape: Path, tmp_path: Path) -> None:
    done = forked.run(["serve", "--db", tape, "--ready-file", tmp_path / "no" / "url"])
    assert done.returncode == 1
    assert done.stderr.endswith("cannot be written (No such file or directory): name another --ready-file\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--speed", "nan"], "use 0, or 1e-06 to 1e+06"),
        (["--fault", "cut@50"], "50 is no position"),
        (["--form", "crlf,cr"], "crlf and cr contradict each other"),
        (["--listen", "0.0.0.0:0"], "can be reached from other machines"),
        (["--upstream", "http://127.0.0.1:9"], "--upstream is for --record"),
        (["--record", "new", COMPLETE], "select by a filter"),
        (["--record", "new", "--match", "id"], "leave out --record"),
    ],
)
def test_options_that_mean_nothing_are_refused(tape: Path, options: list[str], message: str) -> None:
    assert message in run(tape, "serve", *options, code=2).output


KEY = "AIzaSyq9Zk3LmN8vXw2RtY7uKpQs1fG4hJ6dB0c"


def test_a_targets_key_is_not_in_the_log(tape: Path) -> None:
    targets = (f"/@{COMPLETE}/v1?key={KEY}", f"/v1/x?alt=sse&key={KEY}", f"/v1/x?X-Amz-Signature={KEY}", f"/v1/{KEY}/x",
               f"/v1/x?%6bey={KEY}", "/v1/x?access_token=short")  # fmt: skip
    with started("serve", "--db", str(tape), "--no-wait") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        base = process.stdout.readline().decode().strip()
        statuses = [httpx.get(f"{base}{target}", trust_env=False).status_code for target in targets]
        process.send_signal(signal.SIGTERM)
        report = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert statuses == [200] + [404] * 5
    assert KEY not in report
    assert "short" not in report
    assert report.count("REDACTED") >= len(targets)


def test_the_documented_control_by_curl_works(demo: tuple[Path, str], tmp_path: Path) -> None:
    topic = (forked.ROOT / "viewer/help/replay.md").read_text("utf-8")
    (script,) = re.findall(r"<!-- control by curl -->\n```sh\n(.*?)```", topic, re.DOTALL)
    environment = os.environ | {"WIRETAPE_CONTROL_TOKEN": "sixteen-or-more-characters", "no_proxy": "127.0.0.1"}
    options = ("--control", "--no-wait", "--ready-file", str(tmp_path / "ready"))
    with started("serve", "--db", str(demo[0]), *options, env=environment) as process:
        until((tmp_path / "ready").exists)
        done = subprocess.run(["bash", "-ec", f"{script}\nwait"], cwd=tmp_path, env=environment, capture_output=True)
        process.send_signal(signal.SIGTERM)
        report = process.communicate()[1].decode()
    answers = [json.loads(answer) for answer in done.stdout.decode().replace("}{", "}\n{").splitlines()]
    assert [answer["state"] for answer in answers if "state" in answer] == ["held", "held", "done", "done"]
    assert [answer["event"] for answer in answers if "event" in answer][:2] == [3, 5]
    assert (tmp_path / "answer").read_bytes().endswith(b"data: [DONE]\n\n")
    assert "the token of control is shown" not in report
    assert "1 request answered, 0 not recorded" in report

"""The address of live pages: known to the viewer of the same user, as long as they are served."""

import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.forked import CLI
from wiretape.viewer.source import served

URL = "http://127.0.0.1:1/word/"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "wiretape"


def test_only_the_user_knows_a_served_pages_address(tape: Path, runtime: Path) -> None:
    assert served.address(tape) is None
    with served.announced(tape, URL):
        assert served.address(tape) == URL
        with served.announced(tape, "http://127.0.0.1:2/"):  # the first stays
            assert served.address(tape) == URL
        (file,) = runtime.iterdir()
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(runtime.stat().st_mode)) == (0o600, 0o700)
    assert served.address(tape) is None
    assert file.read_bytes() == b""


def test_the_address_that_a_killed_server_left_is_none(tape: Path, runtime: Path) -> None:
    with served.announced(tape, URL):
        (file,) = runtime.iterdir()
    file.write_text(URL)
    assert served.address(tape) is None


def test_without_a_runtime_directory_there_is_no_address(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with served.announced(tape, URL):
        assert served.address(tape) is None


@pytest.mark.parametrize(("more", "is_told"), [([], True), (["-f", "is:ok"], False)])
def test_view_web_tells_the_address_of_all_exchanges(tape: Path, runtime: Path, more: list[str], is_told: bool) -> None:
    command = [sys.executable, *CLI, "view", "--db", str(tape), "--web", "@", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stderr is not None
            page = server.stdout.readline().strip()
            server.stderr.readline()
            with httpx.Client(trust_env=False) as client:
                assert client.get(page).status_code == 200
                url = served.address(tape)
                assert (url is not None) == is_told
                if url is not None:
                    assert page.startswith(url)
                    assert client.get(url).status_code == 200
        finally:
            server.kill()
    assert served.address(tape) is None

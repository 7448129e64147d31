"""A program's environment for an intercepting recorder: its variables, and the files that remain afterwards."""

import os
import re
import ssl
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from wiretape.recorder import process
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay import authority, environment

URL = "http://wiretape:secret@127.0.0.1:8377"


def pem(name: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place for directories of certificates."""
    there = tmp_path / "temporary"
    there.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(there))
    return there


def test_the_bundle_has_the_roots_of_the_system_of_the_user_and_ours(place: Path, tmp_path: Path) -> None:
    (tmp_path / "corporate.pem").write_text("# ours\n" + pem("corporate") + pem("twice"))
    (tmp_path / "extra.pem").write_text(pem("extra") + pem("twice"))
    (tmp_path / "given.pem").write_text(pem("given"))
    preset = {"REQUESTS_CA_BUNDLE": "corporate.pem", "NODE_EXTRA_CA_CERTS": "extra.pem", "CURL_CA_BUNDLE": "not there"}
    environ = {name: str(tmp_path / file) for name, file in preset.items()}
    with environment.certificate_files(pem("own"), environ, tmp_path / "given.pem") as names:
        adding, bundle = (Path(names[name]).read_text() for name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"))
        assert set(names) == set(environment.READERS)
        assert {names[name] for name in names if name != "NODE_EXTRA_CA_CERTS"} == {names["SSL_CERT_FILE"]}
        (directory,) = place.iterdir()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert adding == pem("own") + pem("extra") + pem("twice") + pem("given")
    for name in ("own", "corporate", "extra", "given"):
        assert bundle.count(pem(name)) == 1
    assert bundle.count("BEGIN CERTIFICATE") > 20
    assert list(place.iterdir()) == []


def test_the_directory_of_a_killed_recorder_is_removed_by_the_next(place: Path) -> None:
    left, new = place / "wiretape-ca-killed", place / "wiretape-ca-new"
    for directory in (left, new):
        directory.mkdir()
        (directory / "bundle.pem").touch()
    os.utime(left, (1, 1))
    with environment.certificate_files(pem("own"), {}, None) as first:
        held = Path(first["SSL_CERT_FILE"]).parent
        os.utime(held, (1, 1))
        with environment.certificate_files(pem("own"), {}, None):
            assert (left.exists(), new.exists(), held.exists()) == (False, True, True)


def test_a_missing_directory_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    with pytest.raises(WiretapeError, match="no directory for wiretape's certificate"):
        environment.certificate_files(pem("own"), {}, None).__enter__()


@pytest.mark.parametrize("in_the_way", ["file", "link"])
def test_a_cache_that_is_no_directory_is_not_used(place: Path, tmp_path: Path, in_the_way: str) -> None:
    cache = tmp_path / "home" / ".cache" / "wiretape"
    cache.parent.mkdir(parents=True)
    cache.touch() if in_the_way == "file" else cache.symlink_to(tmp_path / "nowhere")
    with environment.certificate_files(pem("own"), {"HOME": str(tmp_path / "home")}, None) as names:
        assert place in Path(names["SSL_CERT_FILE"]).parents


def test_exports_set_in_a_shell_what_a_command_gets(place: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "NO_PROXY": "*", "no_proxy": "x", "NODE_OPTIONS": "--trace-warnings"}
    with environment.certificate_files(authority.make().certificate, {}, None) as names:
        names = {name: f"{path} 'quoted'" for name, path in names.items()}
        script = "\n".join([*environment.exports(URL.replace("secret", "$SECRET"), names), "env -0"])
        done = subprocess.run(
            ["sh", "-c", script], env={**environ, "SECRET": "secret"}, capture_output=True, text=True, check=True
        )
    shown = dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)
    wanted = environment.proxied(environ, URL, names)
    assert {name: shown.get(name) for name in wanted} == wanted
    assert not set(environment.BYPASSES) & shown.keys()
    assert re.fullmatch(r"--trace-warnings --require=/\S+\.cjs", shown["NODE_OPTIONS"])


@pytest.mark.parametrize(
    ("agent", "variable"),
    [
        ("curl/8.14.1", "CURL_CA_BUNDLE"),
        ("python-requests/2.34", "REQUESTS_CA_BUNDLE"),
        ("Boto3/1.40 md/Botocore", "AWS_CA_BUNDLE"),
        ("codex_cli_rs/0.169", "CODEX_CA_CERTIFICATE"),
        ("OpenAI/JS 6.1", "NODE_EXTRA_CA_CERTS"),
        ("Go-http-client/1.1", "SSL_CERT_FILE"),
    ],
)
def test_the_variable_that_a_program_reads_is_named(agent: str, variable: str) -> None:
    told = environment.advice("api.test", agent, "TLS alert unknown_ca")
    assert [name for name in environment.READERS if name in told] == [variable]
    assert told.startswith(agent.split(" ")[0])


@pytest.mark.parametrize(
    ("why", "how", "variable"),
    [
        ("TLS alert unknown_ca", "does not", "SSL_CERT_FILE"),
        ("it closed the connection on seeing it", "seems not to", "NODE_EXTRA_CA_CERTS"),
    ],
)
def test_what_an_unknown_program_reads_is_guessed_by_how_it_leaves(why: str, how: str, variable: str) -> None:
    assert f"a program {how} trust wiretape's certificate for api.test ({why}). It probably reads {variable} (" in (
        environment.advice("api.test", "", why)
    )


def test_node_reads_a_path_with_spaces_and_letters_of_any_script() -> None:
    assert environment.node_option("/home/é/node.cjs") == "--require=/home/é/node.cjs"
    assert environment.node_option('/home/é "x"/node.cjs') == '--require="/home/é \\"x\\"/node.cjs"'


def test_a_programs_name_is_clipped() -> None:
    advice = environment.advice("api.test", "x" * 60_000, "TLS alert unknown_ca")
    assert advice.startswith(f"{'x' * 59}… does not trust")


def test_variables_that_are_replaced_are_named_without_what_they_hold() -> None:
    first, second = environment.remarks({"NO_PROXY": "*", "https_proxy": "http://u:secret@corporate:3128"})
    assert first.startswith("NO_PROXY=* is cleared")
    assert second.startswith("https_proxy is replaced")
    assert "secret" not in second
    assert environment.remarks({"NO_PROXY": " "}) == []


def test_java_gets_the_proxy_without_its_password_and_a_store_with_all_roots(place: Path) -> None:
    own = authority.make().certificate
    with environment.certificate_files(own, {}, None) as names:
        options = environment.proxied({}, URL, names)[environment.JAVA]
        assert "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8377 -Dhttp.proxyHost=127.0.0.1" in options
        assert "secret" not in options
        store = re.findall(r"trustStore=(\S+)", options)[0]
        data, bundle = Path(store).read_bytes(), Path(names["SSL_CERT_FILE"]).read_text()
    roots = [ssl.PEM_cert_to_DER_cert(one) for one in re.findall("-----BEGIN.*?-----END.*?-----", bundle, re.DOTALL)]
    assert ssl.PEM_cert_to_DER_cert(own) in data
    assert sum(root in data for root in roots) == len(roots) > 20


def test_java_gets_no_proxy_that_would_only_refuse_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with environment.certificate_files(authority.make().certificate, {}, None) as names:
        assert "proxyHost" not in environment.java_options("http://wiretape:secret@[::1]:8377", names)
        monkeypatch.setattr(process, "HAS_PROC", False)
        assert environment.java_options(URL, names).startswith("-Djavax.net.ssl.trustStore=/")
        assert "proxyHost" not in environment.java_options(URL, names)


def test_options_that_java_has_already_stay(place: Path) -> None:
    with environment.certificate_files(authority.make().certificate, {}, None) as names:
        assert environment.proxied({environment.JAVA: "-Xmx1g"}, URL, names)[environment.JAVA] == "-Xmx1g"
        spaced = {name: path.replace("bundle.pem", "a b/bundle.pem") for name, path in names.items()}
        assert ' -Djavax.net.ssl.trustStore="/' in f" {environment.java_options(URL, spaced)}"

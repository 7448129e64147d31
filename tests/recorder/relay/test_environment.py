"""A program's environment for an intercepting recorder: its variables, and the files that remain afterwards."""

import functools
import hashlib
import os
import re
import ssl
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12

from wiretape.recorder import process
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay import authority, environment

URL = "http://wiretape:secret@127.0.0.1:8377"


def pem(name: str) -> str:
    """Return what looks like a certificate."""
    return ssl.DER_cert_to_PEM_cert(name.encode())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place for directories of certificates."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_the_bundle_holds_system_roots_user_roots_and_ours(place: Path, tmp_path: Path) -> None:
    (tmp_path / "corporate.pem").write_text("# ours\n" + pem("corporate") + pem("twice"))
    (tmp_path / "extra.pem").write_text(pem("extra") + pem("twice"))
    (tmp_path / "given.pem").write_text(pem("given"))
    preset = {"REQUESTS_CA_BUNDLE": "corporate.pem", "NODE_EXTRA_CA_CERTS": "extra.pem", "CURL_CA_BUNDLE": "not there"}
    environ = {name: str(tmp_path / file) for name, file in preset.items()}
    with environment.certificate_files(pem("own"), environ, tmp_path / "given.pem") as names:
        adding, bundle = (Path(names[name]).read_text() for name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"))
        assert set(names) == set(environment.READERS) - {"CURL_CA_BUNDLE"}
        assert {names[name] for name in names if name != "NODE_EXTRA_CA_CERTS"} == {names["SSL_CERT_FILE"]}
        (directory,) = place.iterdir()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert adding == pem("own") + pem("given") + pem("extra") + pem("twice")
    for name in ("own", "corporate", "extra", "given"):
        assert bundle.count(pem(name)) == 1
    assert bundle.count("BEGIN CERTIFICATE") > 20
    assert list(place.iterdir()) == []


def test_bundles_that_are_directories_are_joined_and_trusted_upstream(place: Path, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0123abcd.0").write_text(pem(name))
    (tmp_path / "one" / "README").write_bytes(b"\xff no certificate")
    (tmp_path / "one" / "below").mkdir()
    environ = {
        "REQUESTS_CA_BUNDLE": str(tmp_path / "one"),
        "SSL_CERT_DIR": f"{tmp_path / 'two'}:/not/there:{tmp_path / 'three'}",
    }
    with environment.certificate_files(pem("own"), environ, None) as names:
        bundle = Path(names["REQUESTS_CA_BUNDLE"]).read_text()
    assert all(pem(name) in bundle for name in ("own", "one", "two", "three"))
    assert {b"one", b"two", b"three"} <= environment.authorities(environ)
    assert "SSL_CERT_DIR" not in names
    assert environment.remarks(environ) == []


def test_a_trusted_openssl_certificate_is_read_without_its_purposes(tmp_path: Path) -> None:
    certificate = b"\x30\x82\x01\x00" + b"c" * 256
    text = ssl.DER_cert_to_PEM_cert(certificate + b"\x30\x04\x0c\x02me").replace(" CERT", " TRUSTED CERT")
    (tmp_path / "trusted.pem").write_text(text)
    assert environment.authorities({"CURL_CA_BUNDLE": str(tmp_path / "trusted.pem")}) == {certificate}


def test_an_unreadable_bundle_stays_if_its_program_needs_it(place: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    environ = {name: str(tmp_path / "empty") for name in ("PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR")}
    with environment.certificate_files(pem("own"), environ | {"AWS_CA_BUNDLE": "/not/there"}, None) as names:
        assert set(environment.READERS) - set(names) == {"PIP_CERT", "AWS_CA_BUNDLE"}
        assert Path(names["NODE_EXTRA_CA_CERTS"]).read_text() == pem("own")
    for line in environment.remarks(environ):
        effect = "it stays, and pip fails as without wiretape" if line.startswith("PIP_CERT") else "it adds nothing"
        assert line.endswith(f"({tmp_path / 'empty'}: no certificates in PEM): {effect}")
    (missing,) = environment.remarks({"AWS_CA_BUNDLE": "/not/there"})
    assert "(/not/there: No such file or directory)" in missing


def jks(certificates: Mapping[str, bytes], password: str = "changeit") -> bytes:
    """Return Java's older form of a store."""
    entries = [
        struct.pack(">IH", 2, len(name)) + name.encode() + bytes(8) + b"\0\5X.509" + struct.pack(">I", len(der)) + der
        for name, der in certificates.items()
    ]
    data = struct.pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    return data + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()


def pkcs12_store(certificates: Mapping[str, bytes], password: str = "") -> bytes:
    """Return Java's present form of a store."""
    entries = [
        pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(der), name.encode())
        for name, der in certificates.items()
    ]
    protection = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return pkcs12.serialize_java_truststore(entries, protection)


STORES = {"JKS": jks, "PKCS12": functools.partial(pkcs12_store, password="changeit"), "unprotected": pkcs12_store}


@pytest.mark.parametrize("form", STORES)
def test_certificates_added_to_javas_store_are_trusted_everywhere(place: Path, tmp_path: Path, form: str) -> None:
    root, corporate = (ssl.PEM_cert_to_DER_cert(authority.make().certificate) for _ in range(2))
    store = tmp_path / "jre/lib/security/cacerts"
    store.parent.mkdir(parents=True)
    store.write_bytes(STORES[form]({"root [jdk]": root, "corporate": corporate}))
    environ = {"JAVA_HOME": str(tmp_path), "PATH": ""}
    with environment.certificate_files(authority.make().certificate, environ, None) as names:
        joined = Path(names["SSL_CERT_FILE"]).with_name("truststore.p12").read_bytes()
    assert root in joined
    assert corporate in joined
    assert environment.authorities(environ) == {corporate}


@pytest.mark.parametrize("form", [jks, pkcs12_store])
def test_the_store_in_javas_options_is_copied_if_readable(
    place: Path, tmp_path: Path, form: Callable[[Mapping[str, bytes], str], bytes]
) -> None:
    corporate = ssl.PEM_cert_to_DER_cert(authority.make().certificate)
    (tmp_path / "a store").write_bytes(form({"corporate": corporate}, "of their own"))
    java_options = f'-Xmx1g -Djavax.net.ssl.trustStore="{tmp_path}/a store" -Djavax.net.ssl.trustStorePassword='
    for password, is_readable in (('"of their own"', True), ("another", False)):
        environ = {environment.JAVA: java_options + password}
        with environment.certificate_files(authority.make().certificate, environ, None) as names:
            options = environment.proxied(environ, URL, names)[environment.JAVA]
            store = Path(names["SSL_CERT_FILE"]).with_name("truststore.p12")
            assert (store.exists() and corporate in store.read_bytes()) == is_readable
        assert options.startswith(f"{java_options}{password} -D")
        assert (f" -Djavax.net.ssl.trustStore={store} " in options) == is_readable
        assert (" -Djavax.net.ssl.trustStorePassword= " in options) == is_readable
        assert [line.split(" (")[0] for line in environment.remarks(environ)] == (
            [] if is_readable else ["Java's certificates cannot be read"]
        )


def test_the_next_recorder_removes_a_killed_ones_directory(place: Path) -> None:
    stale, new = place / "wiretape-ca-killed", place / "wiretape-ca-new"
    for directory in (stale, new):
        directory.mkdir()
        (directory / "bundle.pem").touch()
    os.utime(stale, (1, 1))
    with environment.certificate_files(pem("own"), {}, None) as files:
        store = Path(files["SSL_CERT_FILE"]).parent
        os.utime(store, (1, 1))
        with environment.certificate_files(pem("own"), {}, None):
            assert (stale.exists(), new.exists(), store.exists()) == (False, True, True)


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
        expected = environment.proxied(environ, URL, names)
    variables = dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)
    assert {name: variables.get(name) for name in expected} == expected
    assert not set(environment.BYPASSES) & variables.keys()
    assert re.fullmatch(r"--trace-warnings --require=/\S+\.cjs", variables["NODE_OPTIONS"])


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
    advice = environment.advice("api.test", agent, "TLS alert unknown_ca")
    assert [name for name in environment.READERS if name in advice] == [variable]
    assert advice.startswith(agent.split(" ")[0])


@pytest.mark.parametrize(
    ("ending", "reaction", "variable"),
    [
        ("TLS alert unknown_ca", "does not", "SSL_CERT_FILE"),
        ("it closed the connection on seeing it", "seems not to", "NODE_EXTRA_CA_CERTS"),
    ],
)
def test_the_advice_guesses_what_an_unknown_program_reads(ending: str, reaction: str, variable: str) -> None:
    assert (
        f"a program {reaction} trust wiretape's certificate for api.test ({ending}). It probably reads {variable} ("
        in (environment.advice("api.test", "", ending))
    )


def test_node_reads_paths_with_spaces_and_any_letters() -> None:
    assert environment.node_option("--require=/home/é/node.cjs") == "--require=/home/é/node.cjs"
    assert environment.node_option('--require=/home/é "x"/node.cjs') == '--require="/home/é \\"x\\"/node.cjs"'


@pytest.mark.parametrize(
    ("command", "position"),
    [
        ("node --permission a.js", 1),
        ("timeout 5 /usr/bin/node --allow-fs-read /a -r b --experimental-permission a.js", 3),
        ("nodejs --no-warnings --permission --allow-worker a.js", 1),
        ("node a.js --permission", None),
        ("node --permission-mode a.js", None),
        ("claude --permission plan", None),
        ("sh -c|node --permission a.js", None),
        ("node " + "-r " * 200 + "a.js", None),
    ],
)
def test_an_option_is_added_where_node_asks_for_permission(command: str, position: int | None) -> None:
    words = command.split("|") if "|" in command else command.split()
    changed = environment.with_read_permission(words)
    added = [at for at, word in enumerate(changed) if word.startswith("--allow-fs-read=/")]
    assert added == ([] if position is None else [position])
    assert [word for at, word in enumerate(changed) if at not in added] == words


def test_text_that_only_looks_like_node_is_unchanged() -> None:
    prompt = ["claude", "-p", "why does node --permission fail?"]
    assert environment.with_read_permission(prompt) == prompt
    assert not environment.asks_in_shell(prompt)
    assert environment.asks_in_shell(["/bin/bash", "-lc", "cd a && node --permission a.js"])


def test_a_programs_name_is_clipped() -> None:
    advice = environment.advice("api.test", "x" * 60_000, "TLS alert unknown_ca")
    assert advice.startswith(f"{'x' * 59}… does not trust")


def test_a_cleared_variable_and_an_unused_proxy_are_named() -> None:
    (notice,) = environment.remarks({"NO_PROXY": "*", "https_proxy": "http://u:secret@corporate:3128"})
    assert notice.startswith("NO_PROXY=* is cleared")
    assert environment.remarks({"NO_PROXY": " "}) == []


def test_java_gets_a_proxy_without_password_and_all_roots(place: Path) -> None:
    certificate = authority.make().certificate
    with environment.certificate_files(certificate, {}, None) as names:
        options = environment.proxied({}, URL, names)[environment.JAVA]
        assert "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8377 -Dhttp.proxyHost=127.0.0.1" in options
        assert "secret" not in options
        store = re.findall(r"trustStore=(\S+)", options)[0]
        data, bundle = Path(store).read_bytes(), Path(names["SSL_CERT_FILE"]).read_text()
    roots = [ssl.PEM_cert_to_DER_cert(root) for root in re.findall("-----BEGIN.*?-----END.*?-----", bundle, re.DOTALL)]
    assert ssl.PEM_cert_to_DER_cert(certificate) in data
    assert sum(root in data for root in roots) == len(roots) > 20


def test_java_gets_no_proxy_that_would_only_refuse_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with environment.certificate_files(authority.make().certificate, {}, None) as names:
        assert "proxyHost" not in environment.java_options("http://wiretape:secret@[::1]:8377", names)
        monkeypatch.setattr(process, "HAS_PROC", False)
        assert environment.java_options(URL, names).startswith("-Djavax.net.ssl.trustStore=/")
        assert "proxyHost" not in environment.java_options(URL, names)


def test_java_keeps_its_options_and_the_proxy_in_them(place: Path) -> None:
    with environment.certificate_files(authority.make().certificate, {}, None) as names:
        for option in ("-Xmx1g", "-Dhttps.proxyHost=corporate"):
            options = environment.proxied({environment.JAVA: option}, URL, names)[environment.JAVA]
            assert options.startswith(f"{option} -Djavax.net.ssl.trustStore=/")
            assert ("proxyHost=127.0.0.1" in options) == (option == "-Xmx1g")
        spaced = {name: path.replace("bundle.pem", "a b/bundle.pem") for name, path in names.items()}
        Path(names["SSL_CERT_FILE"]).with_name("a b").symlink_to(".")
        assert ' -Djavax.net.ssl.trustStore="/' in f" {environment.java_options(URL, spaced)}"


def test_excluded_hosts_are_in_every_variable_and_javas_own(place: Path) -> None:
    with environment.certificate_files(authority.make().certificate, {}, None) as names:
        past = environment.proxied({"NO_PROXY": "corporate"}, URL, names, excluded=["localhost", "127.0.0.1"])
        assert [past[name] for name in environment.BYPASSES] == ["localhost,127.0.0.1"] * 2
        assert "nonProxyHosts" not in past[environment.JAVA]
        assert "-Dhttp.nonProxyHosts=" in environment.proxied({}, URL, names)[environment.JAVA]


def test_a_nested_run_cannot_bypass_the_outer_proxy(place: Path) -> None:
    with environment.certificate_files(authority.make().certificate, {}, None) as names:
        assert "WIRETAPE_PROXY" not in environment.proxied({"WIRETAPE_PROXY": "http://u:p@corporate"}, URL, names)

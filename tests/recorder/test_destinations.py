"""Destinations of a tape: encryption, and no password in a URL or in a message."""

from pathlib import Path

import pytest

from tests.support.cases import each_case
from wiretape.recorder import destinations
from wiretape.recorder.destinations import Collector, Target, headers, parse_collector
from wiretape.recorder.tape.redact import shown


@each_case(
    "url, expected",
    [
        ("clickhouse://127.0.0.1/db", Target(("http://127.0.0.1:8123",), "db")),
        ("clickhouse://ch.test", Target(("https://ch.test:8443",), "wiretape")),
        ("clickhouse://a.test:1,b.test/db/", Target(("https://a.test:1", "https://b.test:8443"), "db")),
        ("clickhouse://ann@[::1]:9/db?tls=yes", Target(("https://[::1]:9",), "db", "ann")),
        ("clickhouse://10.0.0.7/db?tls=no&quorum=0", Target(("http://10.0.0.7:8123",), "db", None, 0)),
    ],
)
def test_a_url_is_read(url: str, expected: Target) -> None:
    assert destinations.parse_centre(url) == expected


@each_case(
    "url, said",
    [
        ("http://ch.test", "a server is clickhouse://HOST"),
        ("clickhouse://ann:sesame@ch.test/db", "set WIRETAPE_FLEET_PASSWORD"),
        ("clickhouse:///db", "is not HOST"),
        ("clickhouse://a b/db", "is not HOST"),
        ("clickhouse://ch.test:99999/db", "is not HOST"),
        ("clickhouse://ch.test/a-b", "is no name"),
        ("clickhouse://ch.test/db;DROP", "is no name"),
        ("clickhouse://ch.test/db?tls=maybe", "tls is yes or no"),
        ("clickhouse://ch.test/db?user=x", "unknown in a URL: user"),
        ("clickhouse://ch.test/db?quorum=all", "quorum is a number"),
    ],
)
def test_an_error_in_a_url_is_reported_without_the_password(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        destinations.parse_centre(url)
    assert "sesame" not in str(error.value)
    assert shown(str(error.value)) == str(error.value)


def test_a_password_comes_from_the_environment_or_a_file_and_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from the file\n")
    target = destinations.parse_centre("clickhouse://ann@127.0.0.1/db")
    found = destinations.credentials(target, {destinations.PASSWORD_FILE: str(file), destinations.USER: "bob"})
    assert (found.user, found.password) == ("ann", "from the file")
    assert "file" not in repr(found)
    assert (
        destinations.credentials(target, {destinations.PASSWORD: "x", destinations.PASSWORD_FILE: "/nowhere"}).password
        == "x"
    )
    with pytest.raises(ValueError, match="cannot have"):
        destinations.credentials(target, {destinations.PASSWORD: "a\nb"})


@each_case(
    "url, told",
    [
        ("http://user:sk-secret@h:1", "credentials in a URL"),
        ("ftp://h", "a collector is"),
        ("http://", "a collector is"),
        ("http://h:99999", "a collector is"),
        ("http://h/?key=sk-secret", "a collector is"),
        ("http://h/\x1b[2J", "a collector is"),
    ],
)
def test_a_url_that_is_no_collectors_is_refused_without_its_secrets(url, told):
    with pytest.raises(ValueError, match=told) as raised:
        parse_collector(url)
    assert "secret" not in str(raised.value)


def test_headers_come_from_a_file_or_from_the_variable_and_are_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a=b\n\nX-Key:c\n")
    expected = [("authorization", "Bearer a=b"), ("x-key", "c")]
    assert headers(parse_collector("https://h:4318/x/", file), {destinations.HEADERS: "ignored=1"}) == expected
    assert headers(Collector("https://h"), {destinations.HEADERS: "Authorization=Bearer%20a=b, x-key=c"}) == expected
    for part, lines in ((1, "x-key sk-secret"), (2, "a=b,x-key=sk-secret\x01")):
        with pytest.raises(ValueError, match=f"part {part} is no header") as raised:
            headers(Collector("https://h"), {destinations.HEADERS: lines})
        assert "secret" not in str(raised.value)


def test_the_name_of_a_collector_shows_no_path_and_tells_two_apart() -> None:
    names = [Collector(f"https://h:4318{path}").name for path in ("", "/otlp/sk-secret", "/otlp/other")]
    assert names[0] == "otlp at h:4318"
    assert len(set(names)) == 3
    assert "secret" not in "".join(names)

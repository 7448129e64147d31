"""Addresses of servers: encryption, and no password in a URL or in a message."""

from pathlib import Path

import pytest

from tests.support.cases import each_case
from wiretape.recorder.tape.redact import shown
from wiretape.viewer.wings.clickhouse import address
from wiretape.viewer.wings.clickhouse.address import Target


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
    assert address.parse(url) == expected


@each_case(
    "url, message",
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
def test_a_url_error_is_reported_without_the_password(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        address.parse(url)
    assert "sesame" not in str(error.value)
    assert shown(str(error.value)) == str(error.value)


def test_passwords_come_from_environment_or_file_and_stay_hidden(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from the file\n")
    target = address.parse("clickhouse://ann@127.0.0.1/db")
    credentials = address.credentials(target, {address.PASSWORD_FILE: str(file), address.USER: "bob"})
    assert (credentials.user, credentials.password) == ("ann", "from the file")
    assert "file" not in repr(credentials)
    assert address.credentials(target, {address.PASSWORD: "x", address.PASSWORD_FILE: "/nowhere"}).password == "x"
    with pytest.raises(ValueError, match="cannot have"):
        address.credentials(target, {address.PASSWORD: "a\nb"})

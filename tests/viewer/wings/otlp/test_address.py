"""Addresses of collectors: no credential in a URL, in a name or in a message."""

from pathlib import Path

import pytest

from tests.support.cases import each_case
from wiretape.viewer.wings.otlp import address
from wiretape.viewer.wings.otlp.address import Collector, headers, parse


@each_case(
    "url, message",
    [
        ("http://user:sk-secret@h:1", "credentials in a URL"),
        ("ftp://h", "a collector is"),
        ("http://", "a collector is"),
        ("http://h:99999", "a collector is"),
        ("http://h/?key=sk-secret", "a collector is"),
        ("http://h/\x1b[2J", "a collector is"),
    ],
)
def test_a_wrong_url_is_refused_without_its_secrets(url, message):
    with pytest.raises(ValueError, match=message) as raised:
        parse(f"otlp+{url}")
    assert "secret" not in str(raised.value)


def test_headers_come_from_file_or_variable_and_stay_hidden(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a=b\n\nX-Key:c\n")
    expected = [("authorization", "Bearer a=b"), ("x-key", "c")]
    assert headers(file, {address.HEADERS: "ignored=1"}) == expected
    assert headers(None, {address.HEADERS: "Authorization=Bearer%20a=b, x-key=c"}) == expected
    for part, lines in ((1, "x-key sk-secret"), (2, "a=b,x-key=sk-secret\x01")):
        with pytest.raises(ValueError, match=f"part {part} is no header") as raised:
            headers(None, {address.HEADERS: lines})
        assert "secret" not in str(raised.value)


def test_a_collectors_name_hides_its_path_but_stays_unique() -> None:
    names = [Collector(f"https://h:4318{path}").name for path in ("", "/otlp/sk-secret", "/otlp/other")]
    assert names[0] == "otlp at h:4318"
    assert len(set(names)) == 3
    assert "secret" not in "".join(names)

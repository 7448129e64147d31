"""The frame of a page: one file that reaches no network, and data that come back as they went in."""

import base64
import hashlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests import page
from tests.cases import each_case
from viewer.page import document

ASSETS = Path(document.__file__).parent / "assets"
HOSTILE = "</script><script>alert(1)</script><!-- \u202e\u2066 \0 \x1b[2J \ud800 &amp; ]]> {style} %s"


def written(data: dict[str, Any] | None = None, **parts: bytes) -> page.Read:
    out = io.BytesIO()
    assert document.write(out, "stream", data or {}, parts) == len(out.getvalue())
    return page.read(out.getvalue())


def test_the_policy_allows_the_pages_own_style_and_script_and_no_network() -> None:
    found = written()
    assert found.policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{base64.b64encode(hashlib.sha256(found.script.encode()).digest()).decode()}'",
        "style-src": f"'sha256-{base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()}'",
        "img-src": "data: blob:",
        "connect-src": "'none'",
        "form-action": "'none'",
        "base-uri": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_no_element_of_the_frame_loads_anything() -> None:
    assert not [tag for tag, given in written().tags if given.keys() & {"src", "href", "srcset", "action", "style"}]


def test_data_and_bytes_come_back_as_they_went_in_however_hostile() -> None:
    data = {"text": HOSTILE, "none": None, "number": 2**53 - 1}
    found = written(data, body=HOSTILE.encode("utf-8", "surrogatepass"))
    assert found.data == data
    assert found.blocks["body"] == HOSTILE.encode("utf-8", "surrogatepass")


def test_what_is_recorded_adds_no_element() -> None:
    assert len(written({"text": HOSTILE}, body=b"").tags) == len(written({}, body=b"").tags)


def test_a_page_is_the_same_each_time_it_is_written() -> None:
    assert written({"a": 1}) == written({"a": 1})


@pytest.mark.parametrize("values", [[], [5, 7, 7, None, 9], [None, 3], [10, 4]])
def test_differences_add_up_to_the_column(values: list[int | None]) -> None:
    assert page.undelta(document.deltas(values)) == values


@each_case("path", sorted(ASSETS.iterdir()), ids=lambda path: path.name)
def test_an_asset_makes_no_markup_and_needs_no_network(path: Path) -> None:
    text = path.read_text("utf-8")
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|</|<!--", text) == []
    )
    assert re.findall(r"fetch\(|@import|url\(|XMLHttp|new WebSocket|https?:", text) == []
    assert "\r" not in text


def test_every_asset_is_in_a_page() -> None:
    listed = {name for styles, scripts in document.ASSETS.values() for name in (*styles, *scripts)}
    assert listed == {path.name for path in ASSETS.iterdir()}

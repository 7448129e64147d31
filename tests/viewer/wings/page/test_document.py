"""The frame of a page: one file that reaches no network, and data that come back as they went in."""

import base64
import hashlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import page
from tests.support.cases import each_case
from wiretape.viewer.wings.page import document

ASSETS = Path(document.__file__).parent / "assets"
HOSTILE = "</script><script>alert(1)</script><!-- \u202e\u2066 \0 \x1b[2J \ud800 &amp; ]]> {style} %s"


def page_of(data: dict[str, Any] | None = None, **parts: bytes) -> page.Read:
    out = io.BytesIO()
    assert document.write(out, "stream", data or {}, parts) == len(out.getvalue())
    return page.read(out.getvalue())


def test_the_policy_allows_only_the_pages_own_parts() -> None:
    html = page_of()
    assert html.policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{base64.b64encode(hashlib.sha256(html.script.encode()).digest()).decode()}'",
        "style-src": f"'sha256-{base64.b64encode(hashlib.sha256(html.style.encode()).digest()).decode()}'",
        "img-src": "data: blob:",
        "connect-src": "'none'",
        "form-action": "'none'",
        "base-uri": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_no_element_of_the_frame_loads_anything() -> None:
    assert not [
        tag for tag, attributes in page_of().tags if attributes.keys() & {"src", "href", "srcset", "action", "style"}
    ]


def test_hostile_data_and_bytes_come_back_unchanged() -> None:
    data = {"text": HOSTILE, "none": None, "number": 2**53 - 1}
    html = page_of(data, body=HOSTILE.encode("utf-8", "surrogatepass"))
    assert html.data == data
    assert html.blocks["body"] == HOSTILE.encode("utf-8", "surrogatepass")


def test_what_is_recorded_adds_no_element() -> None:
    assert len(page_of({"text": HOSTILE}, body=b"").tags) == len(page_of({}, body=b"").tags)


def test_a_page_is_written_the_same_each_time() -> None:
    assert page_of({"a": 1}) == page_of({"a": 1})


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
    names = {name for styles, scripts in document.ASSETS.values() for name in (*styles, *scripts)}
    assert names | {document.LIVE} == {path.name for path in ASSETS.iterdir()}


def test_every_colour_is_legible_in_both_themes() -> None:
    pairs = re.findall(r"--(\w+): light-dark\(#(\w{6}), #(\w{6})\);", (ASSETS / "frame.css").read_text("utf-8"))
    colours = {name: (light, dark) for name, light, dark in pairs}
    for name in ("text", "muted", "accent", "good", "warn", "bad"):
        for back in ("back", "raised"):
            for mine, behind in zip(colours[name], colours[back], strict=True):
                assert contrast(mine, behind) >= 4.5, (name, back)
    for name in ("content", "reasoning", "tool", "refusal", "stall"):  # drawn, not written
        for mine, behind in zip(colours[name], colours["back"], strict=True):
            assert contrast(mine, behind) >= 3, name


def contrast(foreground: str, second: str) -> float:
    """Return the contrast of two colours, as WCAG 2 defines it."""
    lighter, darker = sorted(map(luminance, (foreground, second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

"""Pages in Chromium: what they show, what they do when keys are pressed, and that nothing leaves them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Page, chromium
from tests.viewer.commanding import run

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.look()
        yield page


@pytest.fixture(scope="module")
def stall(demo: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the demo's stalled stream, with its texts."""
    file = tmp_path_factory.mktemp("page") / "stall.html"
    run(demo[0], "export", "--html", "@-4", "--with-text", "-o", str(file))
    return file


def test_a_page_asks_for_nothing_but_itself(page: Page, stall: Path) -> None:
    page.open(stall)
    assert page.requests == [stall.as_uri()]
    assert page.faults == []


def test_the_policy_stops_requests_and_markup_made_by_a_script(page: Page, stall: Path) -> None:
    page.open(stall)
    assert page.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'stopped')") == "stopped"
    markup = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made' } catch { return 'stopped' } })()"
    assert page.run(markup) == "stopped"
    page.faults.clear()

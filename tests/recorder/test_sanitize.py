"""No recorded text steers a terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.sanitize import safe


@each_case(
    ("text", "shown"),
    [
        ("plain text, ünïcode, 日本, 🎉", "plain text, ünïcode, 日本, 🎉"),
        ("\x1b[2J\x1b]52;c;aGk=\x07", "␛[2J␛]52;c;aGk=␇"),
        ("\x00\t\r\x7f", "␀␉␍␡"),
        ("\x9b6n\x9d0;t\x9c", "�6n�0;t�"),
        ("a\u202eb\u2066c\u200fd", "a◆b◆c◆d"),
        ("\u200b\ufeff\u00ad", "···"),
        ("a\u2028b\u2029c", "a␊b␊c"),
        ("\ud83d", "�"),
        ("\U000e0041", "�"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_line_feeds_stay_only_where_lines_are_wanted() -> None:
    assert safe("a\r\nb", multiline=True) == "a␍\nb"
    assert safe("a\nb") == "a␊b"


@given(st.text(st.characters(codec=None)))
def test_every_text_keeps_its_length_and_loses_its_controls(text: str) -> None:
    cleaned = safe(text)
    assert len(cleaned) == len(text)
    assert safe(cleaned) == cleaned
    assert not [character for character in cleaned if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]
    cleaned.encode()

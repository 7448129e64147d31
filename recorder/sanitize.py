"""Pure: the one way by which recorded text reaches a terminal.

Recorded text is hostile: an ESC may rename a window, fill a clipboard or reset a terminal, a bidi control may turn a
line around. `safe` maps each such code point to one visible cell and keeps all others; it never changes the length of
a text. Rows of tables are made safe on a pipe, too, which often ends at a terminal; exports and bodies stay exact.
"""

_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_REPLACED = dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000), *range(0xE0000, 0xE0080)), 0xFFFD)
_BIDI = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C, 0x200E, 0x200F), 0x25C6)
_ZERO_WIDTH = dict.fromkeys((0x200B, 0x2060, 0xFEFF, 0x00AD, 0x180E), 0x00B7)
_LINES = dict.fromkeys((0x2028, 0x2029), 0x240A)
_ONE_LINE = _PICTURES | _REPLACED | _BIDI | _ZERO_WIDTH | _LINES
_MANY_LINES = {code: sign for code, sign in _ONE_LINE.items() if code != 0x0A}


def safe(text: str, *, multiline: bool = False) -> str:
    """Return `text` safe to show on a terminal; line feeds stay if `multiline`.

    C0 and DEL become control pictures, C1, surrogates and tags U+FFFD, bidi controls `◆`, characters without width `·`.
    """
    if text.isascii() and text.isprintable():
        return text  # nearly every text, and far cheaper than a translation
    return text.translate(_MANY_LINES if multiline else _ONE_LINE)


def clipped(text: str, length: int) -> str:
    """Return at most `length` characters of `text`, the last one `…` if any are left out."""
    return text if len(text) <= length else text[: length - 1] + "…"

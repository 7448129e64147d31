"""The colours of the text that a program has sent to its terminal."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"\x1b\[(?P<sgr>[\d;]*)m|\x1b\[[<-?]?[\d;:]*[ -/]*[@-~]|\x1b\].*?(?:\x07|\x1b\\)|\x1b.|(?P<text>[^\x00-\x20\x7f]+)",
    re.DOTALL,
)
_PARAMETER = re.compile(r"(?P<layer>[34])8;2;(?P<red>\d+);(?P<green>\d+);(?P<blue>\d+)|\d+")
_BOX = frozenset("▌▐X")


def pairs(sent: str) -> Iterator[tuple[str, str, str]]:
    """Yield each text that is drawn, with its colour and its background as `#rrggbb`; blanks are left out."""
    colours, is_reversed = {"3": "", "4": ""}, False
    for token in _TOKEN.finditer(sent):
        if token["text"]:
            text, ground = (colours[layer] for layer in ("43" if is_reversed else "34"))
            if text != ground or not _BOX.issuperset(token["text"]):  # an empty box hides its cross in its own colour
                yield text, ground, token["text"]
        for parameter in _PARAMETER.finditer(token["sgr"] or "0" if token["sgr"] is not None else ""):
            if parameter["layer"]:
                colours[parameter["layer"]] = "#" + "".join(f"{int(part):02x}" for part in parameter.group(2, 3, 4))
            elif parameter[0] in ("0", "7", "27"):
                is_reversed = parameter[0] == "7"
                colours |= {"3": "", "4": ""} if parameter[0] == "0" else {}
            else:
                assert parameter[0] in ("1", "3", "4", "9", "22"), f"an attribute that changes colours: {parameter[0]}"

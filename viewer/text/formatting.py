"""Pure: one value as text for people, safe for a terminal; unknown is `–`.

The meaning of values is left to `rows`, the output of texts to `report`.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final
from urllib.parse import urlsplit

from wiretape.recorder.sanitize import safe
from wiretape.viewer.record import cells

UNKNOWN: Final = "–"
MINUS: Final = "−"
"""The sign of negative numbers, and of times before the zero."""

_MOST_MS: Final = 9_999.5
"""From here on, a time in ms has five digits when it is rounded."""
LEAST_MINUTES: Final = 120
"""Shortest time that is written in minutes, in seconds."""


def cell(value: object) -> str:
    words = cells.words(value)
    return UNKNOWN if words is None else safe(str(words))


def line(text: str | None) -> str:
    return UNKNOWN if text is None else safe(text)


def block(text: str) -> str:
    return safe(text.expandtabs(4), multiline=True)


def ms(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"


def span(ms: float | None) -> str:
    """Return a duration in few characters: ms up to 9,999, then s, minutes, hours, days."""
    if ms is None:
        return UNKNOWN
    if ms < _MOST_MS:
        return f"{ms:,.0f} ms"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if ms / 1000 < limit:
            return f"{ms / 1000 / size:,.{1 if unit == 's' else 0}f} {unit}"
    return f"{ms / 86_400_000:,.0f} d"


def whole_ms(ms: float, width: int) -> str:
    return first_that_fits((f"{ms:,.0f}", f"{ms:.0f}", f"{ms / 1000:,.0f}s"), width)


def first_that_fits(texts: Sequence[str], width: int) -> str:
    """Return the first text that fits a width in cells, or the last."""
    return next((text for text in texts if len(text) <= width), texts[-1])


def seconds(ms: float | None, digits: int = 3) -> str:
    return UNKNOWN if ms is None else f"{ms / 1000:,.{digits}f}"


def beside(ms: float, longest_ms: float) -> str:
    """Return a duration in the unit of its column, by the longest there: ms up to 9,999, then s."""
    return f"{ms:,.0f} ms" if longest_ms < _MOST_MS else f"{seconds(ms, 1)} s"


def duration(ns: int) -> str:
    """Return the length of a wait in few characters: `110 ms`, `2.3 s`, and from 120 s on in minutes, as `30:36`."""
    if round(ns / 1e9) >= LEAST_MINUTES:
        return minutes(round(ns / 1e9))
    # From half a millisecond below a second on, it would be rounded to 1000 ms.
    return f"{ns / 1e6:.0f} ms" if ns < 999_500_000 else f"{ns / 1e9:.1f} s"


def timestamp(ns: int, beside_ns: int = 0) -> str:
    """Return a time to a millisecond: in seconds, as `7.250`, and from 120 s on in minutes, as `30:36.755`.

    It is in minutes, too, if the time `beside_ns` that it is shown with is.
    """
    text = f"{abs(ns) / 1e9:.3f}"
    seconds, fraction = text.split(".")
    if max(float(text), abs(beside_ns) / 1e9) >= LEAST_MINUTES:
        text = f"{minutes(int(seconds))}.{fraction}"
    return f"{MINUS}{text}" if ns < 0 and text.strip("0.") else text


def timestamp_with_unit(ns: int, mark: str = "") -> str:
    """Return a time as `timestamp` does, `mark`, and the unit of seconds; minutes need none."""
    text = timestamp(ns)
    return f"{text}{mark}{unit(text)}"


def unit(timestamp: str) -> str:
    """Return the unit of a time that `timestamp` returned, with a blank before it; minutes have none."""
    return "" if ":" in timestamp else " s"


def minutes(seconds: int) -> str:
    """Return a time in minutes and seconds, as `30:36`; it has no hours, and so is no time of day."""
    return f"{seconds // 60}:{seconds % 60:02}"


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def share(part: float, total: float) -> str:
    """Return a part of a whole in percent; a small one is `<1 %`, not 0."""
    percent = 100 * part / total
    return f"{percent:.0f} %" if percent >= 1 else "<1 %"


def short_count(value: int) -> str:
    """Return a number of things in at most six cells: from 100,000 on in thousands or millions, as `120k` or `12M`."""
    if value <= 99_999:
        return f"{value:,}"
    # 9,999,500 would be rounded to 10,000k, which has seven cells.
    return f"{value / 1e3:,.0f}k" if value < 10 * 1e6 - 500 else f"{value / 1e6:,.0f}M"


def amount(value: float | None) -> str:
    return UNKNOWN if value is None else f"{Decimal(repr(value)):,f}"


def server(url: str, name: str | None) -> str:
    """Return the name of an upstream, as two may have one URL; of an unnamed one its host and port."""
    return name or host(url)


def host(upstream: str) -> str:
    """Return the host and port of an upstream's URL; other text is returned unchanged."""
    try:
        return urlsplit(upstream).netloc or upstream
    except ValueError:
        return upstream

"""Where prices are read: `[[prices]]` and `currency` in `./.wiretape.toml`, then those in the user's `config.toml`."""

from pathlib import Path
from typing import Any, Final

import click

from wiretape.recorder.sanitize import safe
from wiretape.viewer.stats import prices
from wiretape.viewer.stats.prices import Price, Prices, PricesWrong
from wiretape.viewer.timing.thresholds import LOCAL_FILE, read_known, user_file

_MOST: Final = 1000


def read() -> Prices:
    """Read both files; neither need exist. Raises `PricesWrong`, which names the file and the entry."""
    entries, currencies = list[Price](), list[str]()
    for path in (Path(LOCAL_FILE), user_file()):
        where = safe(str(path))
        document = _document(path)
        if "currency" in document:
            currencies.append(_read(f"currency in {where}", prices.currency, document["currency"]))
        listed = document.get("prices", [])
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise PricesWrong(f"prices in {where} is no list of tables: write [[prices]] above each entry")
        if len(listed) > _MOST:
            raise PricesWrong(f"{where} has {len(listed):,} [[prices]], at most {_MOST:,} are read: * fits many models")
        entries += [
            _read(f"entry {number} of [[prices]] in {where}", prices.entry, one) for number, one in enumerate(listed, 1)
        ]
    return Prices(entries, *currencies[:1])


def _document(path: Path) -> dict[str, Any]:
    try:
        return read_known(path)
    except click.UsageError as error:
        raise PricesWrong(error.message) from error


def _read(where: str, reader: Any, value: Any) -> Any:
    try:
        return reader(value)
    except ValueError as error:
        raise PricesWrong(f"{where}: {error}") from error

"""The names that a key map can use: the ids of all bindings of all screens and their widgets.

To know them all, all screens have to be loaded: so that is only done where there is a key map.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Iterator

from textual.binding import Binding
from textual.dom import DOMNode

from recorder.sanitize import safe
from viewer import tui


def unknown(names: Iterable[str]) -> str | None:
    """Say which names are of no action, and what may have been meant; None if all are of one."""
    wrong = sorted(set(names) - (known := _known()))
    if not wrong:
        return None
    meant = [difflib.get_close_matches(name, known, 1) for name in wrong]
    told = [
        f"{safe(name)}{f' (did you mean {near[0]}?)' if near else ''}" for name, near in zip(wrong, meant, strict=True)
    ]
    return f"[keys] has names of no action: {', '.join(told)}; ? shows the names"


def _known() -> set[str]:
    for module in pkgutil.walk_packages(tui.__path__, f"{tui.__name__}."):
        importlib.import_module(module.name)
    own = (one for one in _below(DOMNode) if one.__module__.startswith("viewer.tui."))
    bindings = (binding for one in own for binding in vars(one).get("BINDINGS", ()))
    return {binding.id for binding in bindings if isinstance(binding, Binding) and binding.id}


def _below(of: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for one in of.__subclasses__():
        yield one
        yield from _below(one)

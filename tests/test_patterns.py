"""No regular expression of ours takes more than linear time: most see text that anybody may have written."""

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.cases import each_case
from tests.support.growth import grows_too_fast, hostile

ROOT = Path(__file__).parent.parent
METHODS = ("search", "match", "fullmatch", "findall", "sub", "split")
AS_FINDALL = {"finditer": "findall", "subn": "sub"}
SIZE = 2_000

Use = tuple[re.Pattern[Any], str]


def modules() -> Iterator[tuple[ModuleType, ast.Module]]:
    for path in sorted(path for package in ("recorder", "viewer") for path in (ROOT / package).rglob("*.py")):
        name = "wiretape." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield importlib.import_module(name), ast.parse(path.read_text("utf-8"))


def compiled(value: object) -> Iterator[tuple[re.Pattern[Any], str | None]]:
    """Yield the patterns within a constant, each with its method if the constant is that."""
    owner = getattr(value, "__self__", None)
    if isinstance(value, re.Pattern):
        yield value, None
    elif isinstance(owner, re.Pattern):
        yield owner, value.__name__  # type: ignore[attr-defined]
    elif isinstance(value, dict):
        yield from compiled([*value, *value.values()])
    elif isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from compiled(one)


def uses() -> dict[str, Use]:
    """Return the patterns of all modules, each with a method that its module calls.

    Helpers that get a pattern match it at a position.
    """
    found = dict[str, Use]()
    for module, tree in modules():
        nodes = list(ast.walk(tree))
        methods = defaultdict[str, set[str]](set)
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                methods[node.value.id].add(AS_FINDALL.get(node.attr, node.attr))
        targets = (node.targets if isinstance(node, ast.Assign) else [node.target] for node in nodes
                   if isinstance(node, ast.Assign | ast.AnnAssign))  # fmt: skip
        for name in {target.id for some in targets for target in some if isinstance(target, ast.Name)}:
            for pattern, method in compiled(vars(module).get(name)):
                for used in {method} if method else methods[name] & set(METHODS) or {"match", "fullmatch"}:
                    found[f"{module.__name__}.{name}.{used} {pattern.pattern!r:.30}"] = pattern, used
    return found


def caller(pattern: re.Pattern[Any], method: str) -> Callable[[str], object]:
    call = getattr(pattern, method)
    given = ("",) if method == "sub" else ()
    if isinstance(pattern.pattern, bytes):
        return lambda text: call(*(one.encode() for one in given), text.encode("utf-8"))
    return lambda text: call(*given, text)


def texts(pattern: str) -> Iterator[Callable[[int], str]]:
    """Yield texts for a pattern: of the words in it, and of those characters in it that may be repeated."""
    words = [*dict.fromkeys(re.findall(r"[A-Za-z]{2,}", pattern))][:6]
    characters = {sign for sign in pattern if not sign.isalnum()} | set(" a0\n=/")
    return hostile([*words, "0", "a", '"', "["], characters)


def is_slow(use: Use) -> bool:
    pattern, method = use
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return any(grows_too_fast(caller(pattern, method), made, SIZE) for made in texts(source))


@each_case(
    ("pattern", "method"),
    [(r"\s*,\s*", "split"), (r"\s*\d\s*m?\s*", "fullmatch"), (r"\w+=", "search"), (r"\[.*?\]", "sub")],
)
def test_a_quadratic_pattern_is_noticed(pattern: str, method: str) -> None:
    assert is_slow((re.compile(pattern), method))


def test_each_pattern_takes_linear_time() -> None:
    found = uses()
    assert len(found) > 150
    assert [name for name, use in found.items() if is_slow(use)] == []

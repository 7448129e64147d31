"""Tables of cases that state one fact together: one test runs all of them, and names each that fails."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_PER_TEST = {"tmp_path", "tape", "monkeypatch", "capsys", "capfd", "caplog", "request", "recwarn"}
_LONGEST_NAME = 80


def each_case(
    names: str | Sequence[str],
    values: Iterable[Any],
    *,
    ids: Iterable[str | None] | Callable[[Any], object] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each of `values`, all in one item of pytest: for tables whose cases are cheap and many.

    The arguments are those of `pytest.mark.parametrize`. Every case is run; the failures are raised together, each
    with the name of its case. Cases share their fixtures: those that pytest makes for each test are refused.
    """
    arguments = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    table = [_parameters(value, len(arguments)) for value in values]
    assert table, "there are no cases"
    told = list(ids) if ids is not None and not callable(ids) else [case.id for case in table]
    assert len(told) == len(table), "there are not as many names as cases"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        assert not _PER_TEST & {parameter.name for parameter in fixtures}, "cases must not share such a fixture"

        @functools.wraps(test)
        def run_all(**given: Any) -> None:
            failures: dict[str, BaseException] = {}
            for number, case in enumerate(table):
                try:
                    test(**given, **dict(zip(arguments, case.values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # all are raised below
                    parts = [str(ids(value)) if callable(ids) else repr(value) for value in case.values]
                    name = f"{number}: {told[number] or '-'.join(parts)}"[:_LONGEST_NAME]
                    error.add_note(f"case {name}")
                    failures[name] = error
            if failures:
                message = f"{len(failures)} of {len(table)} cases failed: {'; '.join(failures)}"
                raise BaseExceptionGroup(message, list(failures.values()))

        run_all.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run_all

    return decorated


def _parameters(value: Any, size: int) -> Any:
    """Return a case as what `pytest.param` makes, which has `values` and an `id`."""
    if isinstance(value, type(pytest.param())):
        return value
    return pytest.param(value) if size == 1 else pytest.param(*value)

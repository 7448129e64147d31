"""The tree of errors, and the exit codes that scripts rely on."""

import inspect

from tests.support.cases import each_case
from wiretape.recorder import errors

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.WiretapeError)]


@each_case("kind", ALL)
def test_every_error_is_in_the_drawing_with_its_meaning(kind: type[errors.WiretapeError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


def test_a_writers_exit_code_becomes_the_error_it_had() -> None:
    for code, kind in errors.BY_EXIT_CODE.items():
        assert kind.exit_code == code
    assert errors.BY_EXIT_CODE[5] is errors.SchemaMismatch
    assert errors.BY_EXIT_CODE[8] is errors.ForeignFile


def test_an_upstreams_error_names_the_fact() -> None:
    assert errors.UpstreamError("reset", "gone").ended_by == "reset"

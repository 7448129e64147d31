"""The promises of every export and import format in the table of built-in wings."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.commands import on_terminal, run
from tests.support.sample_tape import COMPLETE
from wiretape.recorder.errors import NotFound
from wiretape.viewer import contracts
from wiretape.viewer.contracts import Export, Import, Options
from wiretape.viewer.imported import ImportedFile, NotImportable, Unimportable

WINGS = contracts.built_in().values()
EXPORTS = [pytest.param(export, id=export.name) for wing in WINGS for export in wing.exports]
IMPORTS = [pytest.param(format, id=format.name) for wing in WINGS for format in wing.imports]
OPTIONS = [pytest.param(options, id=options.name) for wing in WINGS for options in wing.options if options.refusal]
GIVEN = {"page": ["--with-text"], "trace": ["--with-messages"], "film": ["--speed", "2"]}


def test_formats_of_a_kind_share_no_name_or_suffix() -> None:
    for kind in ([row for wing in WINGS for row in wing.exports], [row for wing in WINGS for row in wing.imports]):
        names = [row.name for row in kind]
        suffixes = [row.suffix for row in kind if row.suffix]
        assert sorted({*names}) == sorted(names)
        assert sorted({*suffixes}) == sorted(suffixes)
        assert all(suffix.startswith(".") for suffix in suffixes)


@pytest.mark.parametrize("export", EXPORTS)
def test_an_export_has_its_suffix_and_counted_units(tape: Path, tmp_path: Path, export: Export) -> None:
    file = tmp_path / f"exported{export.suffix or '.other'}"
    message = run(tape, "export", COMPLETE, *([] if export.suffix else ["--format", export.name]), "-o", str(file))
    assert file.read_bytes()
    assert f" {export.unit}" in message.stderr.partition("wrote ")[2]


@pytest.mark.parametrize("export", EXPORTS)
def test_an_export_is_in_the_help_with_its_summary(tape: Path, export: Export) -> None:
    text = " ".join(run(tape, "export", "--help").stdout.split())
    assert f"{export.name} is {export.summary}" in text
    assert (f"--{export.name} " in text.replace(f"--format {export.name}", "")) == bool(export.flag)


@pytest.mark.parametrize("export", EXPORTS)
def test_an_empty_export_is_refused_if_exchanges_are_needed(tape: Path, export: Export) -> None:
    arguments = ("export", "-f", "model:of-nobody", "--format", export.name)
    error = run(tape, *arguments, code=int(export.needs_exchange)).exception
    assert isinstance(error, NotFound) == export.needs_exchange


@pytest.mark.parametrize("export", EXPORTS)
def test_only_a_format_that_masks_secrets_can_keep_them(tape: Path, export: Export) -> None:
    arguments = ("export", COMPLETE, "--format", export.name, "--no-redact")
    assert bool(run(tape, *arguments, code=0 if export.is_masked else 2).stdout_bytes) == export.is_masked


@pytest.mark.parametrize("export", EXPORTS)
def test_only_a_format_that_covers_generations_takes_all_operations(tape: Path, export: Export) -> None:
    run(tape, "export", COMPLETE, "--format", export.name, "--all-operations", code=0 if export.has_operations else 2)


@pytest.mark.parametrize("export", [row for row in EXPORTS if getattr(row.values[0], "unprintable", "")])
def test_a_binary_format_stays_off_the_terminal(tape: Path, export: Export) -> None:
    assert export.unprintable in on_terminal(tape, "export", COMPLETE, "--format", export.name)


@pytest.mark.parametrize("options", OPTIONS)
def test_options_of_a_format_are_refused_with_any_other(tape: Path, options: Options) -> None:
    assert options.refusal in run(tape, "export", *GIVEN[options.name], code=2).stderr
    for format in (row.name for wing in WINGS for row in wing.exports if row.options != options.name):
        assert options.refusal in run(tape, "export", "--format", format, *GIVEN[options.name], code=2).stderr


@pytest.mark.parametrize("format", IMPORTS)
@pytest.mark.parametrize("data", [b"\x00", b"{", b"[1]", b"words", b"1:2:,", b"interactions:\n- 1\n", b'{"log": 1}'])
def test_an_import_explains_why_other_files_have_nothing(format: Import, data: bytes) -> None:
    with contextlib.suppress(NotImportable):
        for refusal in contracts.load(format.path)(data, ImportedFile("file", datetime(2026, 3, 1, tzinfo=UTC))):
            assert isinstance(refusal, Unimportable)
            assert refusal.reason


@pytest.mark.parametrize("format", IMPORTS)
def test_an_import_is_in_help_and_has_names(tape: Path, tmp_path: Path, format: Import) -> None:
    assert format.name in run(tape, "import", "--help").stdout
    (file := tmp_path / "file").write_bytes(b"\x00")
    assert "file: it " in run(tape, "import", "--from", format.name, str(file), code=1).stderr

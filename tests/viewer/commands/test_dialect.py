"""`wiretape dialect`, and declarations that are given to the commands that record, import and derive."""

import json
import time
import tomllib
from pathlib import Path

import msgspec
import pytest

from tests.support import page
from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.declared_wires import DECLARED_WIRES, event
from tests.support.sample_tape import SESSION, begin, end, recorded, response
from wiretape.recorder.errors import ConfigError, NotFound
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.rederive import declare, finished_exchanges, rederive
from wiretape.recorder.tape.store import Store
from wiretape.viewer import config

OWN = """[[dialects]]
name = "own"
match = { path = "/v2/parts" }
key = "kind"
text = { on = "part", at = "value" }
end = { on = "last" }
"""
STREAM = [(100, event({"kind": "part", "value": "Let me "})), (140, event({"kind": "part", "value": "see."})),
          (180, event({"kind": "last"}))]  # fmt: skip
ID = "cccc000000000001"


def frames(parts: list[tuple[int, bytes]] = STREAM) -> list[journal.Frame]:
    first_frame = begin(ID, 1, b'{"model": "m"}', "/v2/parts")
    return [first_frame, *response(ID, parts), end(ID, parts)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder without a configuration, with a declaration in `own.toml`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "own.toml").write_text(OWN)
    return tmp_path


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return recorded(tmp_path / "tape.db", frames())


def facts_shown(tape: Path) -> dict[str, object]:
    facts: dict[str, object] = json.loads(run(tape, "show", ID, "--format", "json").stdout)
    return facts


def test_a_trial_explains_events_and_changes_nothing(tape: Path) -> None:
    tried = run(tape, "dialect", "try", "own.toml").stdout.splitlines()
    assert [line.split()[3] for line in tried[1:4]] == ["content", "content", "done"]
    lines_by_name = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in tried[5:]}
    assert (lines_by_name["api"], lines_by_name["outcome"], lines_by_name["ttft_ms"]) == ("own", "complete", "100.0")
    assert lines_by_name["content"] == "Let me see."
    assert (facts_shown(tape)["api"], facts_shown(tape)["content"]) == ("unknown", None)
    assert json.loads(run(tape, "dialect", "try", "own.toml", "--format", "json").stdout)["content"] == "Let me see."


def test_a_trial_names_unknown_keys_and_streams(tape: Path, folder: Path) -> None:
    (folder / "own.toml").write_text(OWN + 'colour = "red"\n')
    assert "own.colour means nothing in a declaration" in run(tape, "dialect", "try", "own.toml").stderr
    (folder / "own.toml").write_text(OWN.replace("/v2/parts", "/v3/parts"))
    missed = run(tape, "dialect", "try", "own.toml", code=1)
    assert isinstance(missed.exception, NotFound)
    assert "no declaration in own.toml recognises this stream" in str(missed.exception)


def test_a_files_mistake_is_reported_with_its_line(tape: Path, folder: Path) -> None:
    (folder / "own.toml").write_text(OWN.replace('at = "value"', 'at = "a..b"'))
    for command in (("dialect", "try"), ("db", "rebuild", "--dialect")):
        failed = run(tape, *command, "own.toml", code=1)
        assert isinstance(failed.exception, ConfigError)
        assert "own.toml, line 5, column" in str(failed.exception)
        assert "at 'a..b' is no path" in str(failed.exception)
    (folder / "own.toml").write_text("a = 1\n")
    assert "declares no dialect" in str(run(tape, "dialect", "try", "own.toml", code=1).exception)


def test_a_rebuild_uses_given_declarations_and_stores_them(tape: Path, folder: Path) -> None:
    assert run(tape, "db", "rebuild", "--dialect", "own.toml").stdout.endswith("1 exchange derived again, 1 changed\n")
    row = facts_shown(tape)
    assert (row["api"], row["outcome"], row["content"], row["operation"]) == ("own", "complete", "Let me see.", "chat")
    assert run(tape, "db", "rebuild").stdout.endswith("1 exchange derived again, 0 changed\n")
    (folder / "own.toml").write_text(OWN + 'operation = "other"\n')
    run(tape, "db", "rebuild", "--dialect", "own.toml")
    assert facts_shown(tape)["operation"] == "other"
    assert facts_shown(tape)["dialect_version"] != row["dialect_version"]


def test_a_copied_tape_is_decoded_by_its_declarations(tape: Path, tmp_path: Path) -> None:
    run(tape, "db", "rebuild", "--dialect", "own.toml")
    for copied in ("copy.jsonl", "copy.db"):
        run(tape, "db", "cut", ID, "-o", copied)
    run(tmp_path / "merged.db", "db", "merge", "copy.jsonl", "--db", "merged.db")
    for path in (tmp_path / "copy.db", tmp_path / "merged.db"):
        assert run(path, "db", "rebuild", "--db", str(path)).stdout.endswith("1 exchange derived again, 0 changed\n")
        assert (facts_shown(path)["api"], facts_shown(path)["content"]) == ("own", "Let me see.")


def test_an_upgrade_derives_again_after_a_changed_declaration(tape: Path) -> None:
    run(tape, "db", "rebuild", "--dialect", "own.toml")
    with file.writing(tape, "a test", create=False) as connection:
        store = Store(connection)
        assert finished_exchanges(store.connection, outdated=True) == []
        declare(store.connection, [{"name": "own", "match": {"path": "/v2/parts"}, "text": "value"}])
        assert finished_exchanges(store.connection, outdated=True) == [1]


def test_toml_values_that_json_lacks_become_texts(tape: Path, folder: Path) -> None:
    (folder / "own.toml").write_text(f"{OWN}since = 2026-01-01\nlarge = {10**40}\nnone = nan\nmost = -inf\n")
    run(tape, "db", "rebuild", "--dialect", "own.toml")
    assert facts_shown(tape)["content"] == "Let me see."
    assert run(tape, "db", "check").stdout.endswith("has no damage\n")
    (folder / "own.toml").write_text(f'{OWN}text_of_a_book = "{"x" * (1 << 20)}"\n')
    assert "declares too much" in str(run(tape, "db", "rebuild", "--dialect", "own.toml", code=1).exception)


def test_an_import_is_decoded_by_the_declarations_given(folder: Path) -> None:
    (folder / "own.sse").write_bytes(b"".join(data for _, data in STREAM))
    url = ("--url", "https://api.example.com/v2/parts", "--from", "sse")
    run(folder / "imported.db", "import", "own.sse", *url, "--dialect", "own.toml", "--db", "imported.db")
    (row,) = json.loads(run(folder / "imported.db", "ls", "--columns", "all", "--format", "json").stdout)
    assert (row["api"], row["outcome"]) == ("own", "complete")


def test_recording_and_rebuilding_with_declarations_give_equal_rows(tmp_path: Path) -> None:
    declared = tomllib.loads(OWN)["dialects"]
    path = tmp_path / "own.db"
    with file.writing(path, "a test") as connection:
        store = Store(connection)
        store.begin_session(msgspec.structs.replace(SESSION, dialects=declared))
        store.settle(store.append(frames()))
        assert [*rederive(store)] == [False]
    assert (facts_shown(path)["api"], facts_shown(path)["content"]) == ("own", "Let me see.")


def test_all_declared_dialects_are_recorded_and_derived_alike(tmp_path: Path) -> None:
    made: list[journal.Frame] = []
    for no, wire in enumerate(DECLARED_WIRES.values()):
        first_frame = begin(f"{no:016x}", no, wire.request or b'{"stream": true}', wire.path)
        headers = [(name.encode(), value.encode()) for name, value in wire.headers.request]
        first_frame = msgspec.structs.replace(first_frame, headers=[*first_frame.headers, *headers])
        parts = [(100 + 10 * place, item) for place, item in enumerate((*wire.events, *wire.ending))]
        head, *reads = response(first_frame.id, parts)
        assert isinstance(head, journal.Head)
        answered = [(name.encode(), value.encode()) for name, value in wire.headers.response]
        made += [
            first_frame,
            msgspec.structs.replace(head, headers=[*head.headers, *answered]),
            *reads,
            end(first_frame.id, parts),
        ]
    path = recorded(tmp_path / "all.db", made)
    rows = map(json.loads, run(path, "ls", "--columns", "all", "--format", "jsonl").stdout.splitlines())
    apis = {row["id"]: (row["api"], row["outcome"]) for row in rows}
    assert [apis[f"{no:016x}"] for no in range(len(DECLARED_WIRES))] == [
        (wire.api, "complete") for wire in DECLARED_WIRES.values()
    ]
    assert run(path, "db", "rebuild").stdout.endswith(f"{len(DECLARED_WIRES)} exchanges derived again, 0 changed\n")
    for id in apis:
        for part in ("summary", "facts", "text", "conversation", "timing", "events", "reads"):
            assert run(path, "show", id, "--part", part, "--format", "table").exit_code == 0
        for form in ("har", "asciicast", "sse"):
            run(path, "export", id, "--format", form)
        run(path, "export", id, "--table", "chunks", "--format", "jsonl")


def test_attributes_are_in_a_page_only_with_the_texts(folder: Path) -> None:
    path = recorded(folder / "own.db", frames())
    (folder / "own.toml").write_text(OWN + 'attributes = { part = "value" }\n')
    run(path, "db", "rebuild", "--dialect", "own.toml")
    assert "attributes part see." in run(path, "show", ID, "--part", "facts").stdout
    run(path, "export", ID, "--html", "-o", "without.html")
    run(path, "export", ID, "--html", "--with-text", "-o", "with.html")
    pages = [str(page.read((folder / name).read_bytes()).data["facts"]) for name in ("without.html", "with.html")]
    assert ["attributes" in one for one in pages] == [False, True]


def test_configured_declarations_apply_and_their_mistakes_do_not_fail(tape: Path, folder: Path) -> None:
    (folder / ".wiretape.toml").write_text(OWN)
    names = run(tape, "dialect", "list").stdout.splitlines()
    assert [line.split("\t")[0] for line in names[1:3]] == ["own", "a2a"]
    assert names[1].endswith("\tconfiguration")
    (folder / ".wiretape.toml").write_text(OWN + 'theme = 7\ntext = "again"\n')
    rebuilt = run(tape, "db", "rebuild")
    assert "the dialects of the configuration are left out: .wiretape.toml, line 8" in rebuilt.stderr
    (folder / ".wiretape.toml").write_text(OWN)
    run(tape, "db", "rebuild")
    assert facts_shown(tape)["content"] == "Let me see."


def test_the_file_of_a_directory_comes_before_the_users(tape: Path, folder: Path) -> None:
    (folder / ".wiretape.toml").write_text(OWN)
    far = folder / "config" / "wiretape" / "config.toml"
    far.parent.mkdir(parents=True)
    far.write_text(OWN.replace('"/v2/parts"', '"/v3/parts"'))
    run(tape, "db", "rebuild")
    assert facts_shown(tape)["content"] == "Let me see."


@each_case("text", [
    OWN.replace('"/v2/parts"', '"/(a+)+$"'),
    OWN.replace('"/v2/parts"', '"/(a|a)*b"'),
    OWN.replace("[[dialects]]", "[dialects]"),
    OWN * 101,
    "dialects = 7\n",
    f"dialects = {'[' * 5000}{']' * 5000}\n",
    f"{OWN}deep = {'[' * 900}{']' * 900}\n",
    f"[[dialects]]\nname = \"own\"\nmatch = {{ path = \"/{'*a' * 5000}\" }}\n",
    f"[[dialects]]\nname = \"own\"\nmatch = {{ path = \"/a\" }}\ntext = \"{'a.' * 90}a\"\n",
    f"[[dialects]]\nname = \"own\"\nmatch = {{ path = \"/a\" }}\ntext = \"{'[]' * 90}\"\n",
    "[[dialects]]\nname = \"__import__('os').abort()\"\nmatch = { path = \"/a\" }\n",
    "[[dialects]]\nname = \"../../etc/passwd\"\nmatch = { path = \"/a\" }\n",
])  # fmt: skip
def test_a_hostile_file_in_the_directory_is_refused_immediately(text: str) -> None:
    Path(".wiretape.toml").write_text(text)
    start = time.thread_time()
    with pytest.raises(ConfigError):
        config.read()
    assert time.thread_time() - start < 2


def test_the_largest_declaration_reads_in_linear_time(folder: Path) -> None:
    deep = ".".join(["a[]"] * 8)
    rules = ", ".join([f'"{deep}.x | {deep}.y"'] * 100)
    declared = f'[[dialects]]\nname = "own"\nmatch = {{ path = "/v2/parts" }}\ntext = [{rules}]\n'
    (folder / "own.toml").write_text(declared)
    nested: object = {"x": 1}
    for _ in range(8):
        nested = {"a": [nested] * 3}
    path = recorded(folder / "large.db", frames([(100, event(nested))]))
    start = time.thread_time()
    run(path, "dialect", "try", "own.toml", code=1)
    assert time.thread_time() - start < 20


def test_a_builtin_declaration_is_printed_as_a_start(tape: Path) -> None:
    assert run(tape, "dialect", "show", "mcp").stdout.startswith("# The Model Context Protocol")
    assert isinstance(run(tape, "dialect", "show", "none", code=1).exception, NotFound)

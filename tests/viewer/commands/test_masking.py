"""Secrets in bodies: masked in what is made to be passed on, counted, and kept on request."""

import json
from pathlib import Path

import pytest

from tests.support import page
from tests.support.commands import run
from tests.support.frames import begin, body, end, head, opened, record

KEY = "sk-ant-api03-Zq81LmX0wPvT6yRk92bcDE"
PIECES = ("Your key:\n", "sk", "-ant-api03-Zq81", "LmX0wPvT6yRk92bcDE", " and cust-17.")
STARS = "*" * len(KEY)
TYPE = [(b"content-type", b"text/event-stream")]
PAGES = ("export --html --with-bodies", "export --html --with-text")
PUBLIC = ("export --format har", *PAGES, "db cut", "report --with-text")


def delta(text: str) -> bytes:
    event = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}
    return f"data: {json.dumps(event)}\n\n".encode()


@pytest.fixture
def leaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tape of a request with two secrets, whose answer brings one of them in pieces."""
    monkeypatch.chdir(tmp_path)
    request = {"model": "m", "user": "cust-17", "messages": [{"role": "user", "content": f"a\n{KEY}"}]}
    request |= {"tools": [{"type": "mcp", "authorization": "hunter2"}]}
    answer = [*map(delta, PIECES), b"data: [DONE]\n\n"]
    with opened(tape := tmp_path / "tape.db") as store:
        record(store, [begin("e1", body=json.dumps(request).encode()), head("e1", TYPE), *body("e1", answer),
                       end("e1", answer)])  # fmt: skip
    return tape


def files_of(tape: Path, command: str, *options: str) -> tuple[str, str]:
    """Return the text in what a command makes, and what it says."""
    name, *arguments = command.split()
    words = [*name.split(), *arguments] if name != "db" else ["db", *arguments]
    verb = words[:2] if name == "db" else words[:1]
    if name == "report":
        done = run(tape, *verb, "@", *words[1:], *options)
        return done.stdout, done.stderr
    file = tape.with_name("out.jsonl" if name == "db" else "out")
    done = run(tape, *verb, "@", *words[len(verb) :], *options, "-o", str(file))
    data = file.read_bytes()
    if "--html" in words:
        page_data = page.read(data)
        pieces = "".join(piece for text in page_data.data["texts"] for piece in text["pieces"])
        return pieces + "".join(map(repr, page_data.blocks.values())), done.stderr
    return data.decode(), done.stderr


@pytest.mark.parametrize("command", PUBLIC)
def test_shared_files_have_no_secrets_and_count_masked_ones(leaking: Path, command: str) -> None:
    text, message = files_of(leaking, command)
    assert not any(part in text for part in (KEY, "LmX0wPvT6yRk92bcDE", "Zq81"))
    assert "1 secret masked" in message if command.startswith("report") else "3 secrets masked" in message
    if "text" not in command:
        assert "hunter2" not in text
        assert STARS in text
        assert "cust-17" in text


@pytest.mark.parametrize("command", [command for command in PUBLIC if not command.startswith("report")])
def test_secrets_are_kept_on_request(leaking: Path, command: str) -> None:
    text, message = files_of(leaking, command, "--no-redact")
    assert "LmX0wPvT6yRk92bcDE" in text
    assert "masked" not in message


@pytest.mark.parametrize("command", PUBLIC)
@pytest.mark.parametrize("rule", ["pattern = 'cust-[0-9]+'", "pattern = 'cust-'\n[[redact]]\nfield = 'user'"])
def test_rules_of_the_configuration_are_applied_as_well(leaking: Path, command: str, rule: str) -> None:
    Path(".wiretape.toml").write_text(f"[[redact]]\n{rule}\n")
    text, _ = files_of(leaking, command)
    assert "cust-17" not in text
    assert KEY not in text


def test_a_cut_without_secrets_is_sound_and_measures_alike(leaking: Path, tmp_path: Path) -> None:
    run(leaking, "db", "cut", "@", "-o", str(there := tmp_path / "cut.db"))
    run(there, "db", "check")
    (before,), (after,) = (json.loads(run(tape, "export", "--format", "json").stdout) for tape in (leaking, there))
    names = {name for name in before if before[name] != after[name]}
    assert names <= {"request_sha256", "session", "row_version"}
    assert json.loads(run(there, "export", "--table", "texts", "--format", "json").stdout)[0]["content"] == (
        f"Your key:\n{STARS} and cust-17."
    )
    assert "masked" not in run(there, "db", "cut", "@", "-o", str(tmp_path / "again.db")).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--redact", "-o", "x.jsonl"], "--redact lacks its pattern, a regular expression: -o was taken for it"),
        (["--redact", "--output=x.jsonl"], "--redact lacks its pattern, a regular expression: --output=x.jsonl was"),
        (["--redact", "x.jsonl"], "Missing option '-o' / '--output' (x.jsonl is the pattern of --redact)"),
        (["-o", "x.jsonl", "--redact", "a("], "is no regular expression"),
    ],
)
def test_a_missing_pattern_is_named(leaking: Path, arguments: list[str], message: str) -> None:
    assert message in " ".join(run(leaking, "db", "cut", "@", *arguments, code=2).stderr.split())


def test_unmaskable_formats_refuse_to_keep_anything(leaking: Path) -> None:
    assert "is for HAR and pages" in run(leaking, "export", "--no-redact", code=2).stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("redact = 3", "line 1, column 1: redact is no list of tables: write [[redact]] above each entry"),
        ("[[redact]]\npattern = 'a('", "line 2, column 1: entry 1 of [[redact]]: 'a(' is no regular expression"),
        (
            "[[redact]]\nvalue = 'a'",
            "line 1, column 1: entry 1 of [[redact]] is no rule: write pattern = 'REGEX' or field",
        ),
        ("[[redact]]\n", "entry 1 of [[redact]] is no rule: write pattern = 'REGEX' or field"),
    ],
)
def test_a_wrong_rule_is_named_with_its_place(leaking: Path, text: str, message: str) -> None:
    Path(".wiretape.toml").write_text(text)
    error = run(leaking, "db", "cut", "@", "-o", "-", code=1).exception
    assert message in str(error)

"""The configuration: its files, their precedence, and the report of a mistake in one of them."""

from pathlib import Path

import click
import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import ConfigError
from wiretape.viewer import config
from wiretape.viewer.config import Config, thresholds


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The paths of a directory's configuration and of the user's: neither is there."""
    for name in ("STALL_MS", "BURST_CHUNKS", "BURST_SHARE", "BURST_READS", "BURST_WINDOW"):
        monkeypatch.delenv(f"WIRETAPE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    user_file = tmp_path / "config" / "wiretape" / "config.toml"
    user_file.parent.mkdir(parents=True)
    assert config.user_file() == user_file
    return tmp_path / config.LOCAL_FILE, user_file


def test_missing_files_are_no_mistake() -> None:
    assert config.read() == Config()
    assert not config.read().prices


def test_nearer_file_comes_first(files: tuple[Path, Path]) -> None:
    near, far = files
    near.write_text('theme = "nord"\n[keys]\nplay = "p"\n[views]\nslow = "ttft>800ms"\n')
    far.write_text('theme = "dracula"\nslo = "ttft<1s"\n[keys]\nplay = "z"\ngroup = "g"\n')
    settings = config.read()
    assert settings.keys == {"play": "p", "group": "g"}
    assert (settings.views, settings.theme, settings.slo) == ({"slow": "ttft>800ms"}, "nord", "ttft<1s")


ENTRY = '[[prices]]\nmodel = "m"\ninput = 2\noutput = 3\n'


@pytest.mark.parametrize(
    ("text", "message_"),
    [
        ("[keys", "1:6: no TOML: Expected ']' at the end of a table declaration"),
        ("\n[thresholds\n", "2:12: no TOML: "),
        ('theme = "a', "1:11: no TOML: "),
        ("keys = 3", "1:1: keys is no table: write [keys] on a line of its own"),
        ("[keys]\na.b = 3", "2:1: a.b under [keys] must be a text in quotes"),
        ('[keys]\n"a\\u001b" = 3', "2:1: a␛ under [keys] must be a text in quotes"),
        ("# them\n\nthem = 3", "3:1: them is no setting: did you mean theme?"),
        ("[threshold]\nstall_ms = 2\n", "1:2: threshold is no setting: did you mean thresholds?"),
        ('db = "t.db"\n', "1:1: db is no setting: there are theme, slo, keys, "),
        ("theme = 3", "1:1: theme: must be a text in quotes"),
        (
            '[views]\ntwo = """a\n b"""\n  slow = "ttft>fast"',
            "4:3: slow under [views] is no filter: 'fast' ",
        ),
        ('slo = "ttft"', "1:1: slo: 'ttft' is not a bound"),
        ("thresholds = 3\n", "1:1: thresholds is no table"),
        (
            "[thresholds]\nstall = 1\n",
            "2:1: stall under [thresholds] is no threshold: there are stall_ms, ",
        ),
        (
            "[thresholds]\nstall_ms = true\n",
            "2:1: stall_ms under [thresholds] is True: it must be a number",
        ),
        (
            "[thresholds]\nburst_chunks = 2.0\n",
            "2:1: burst_chunks under [thresholds] is 2.0: it must be a whole number",
        ),
        (
            "[thresholds]\nburst_reads = [1]\n",
            "2:1: burst_reads under [thresholds] is [1]: it must be a whole number",
        ),
        (
            '[thresholds]\nstall_ms = "\\u001b[2J"\n',
            "2:1: stall_ms under [thresholds] is '\\x1b[2J': it must be",
        ),
        (ENTRY + ENTRY.replace("input", "inputs"), "7:1: entry 2 of [[prices]]: inputs is not a key of a price: "),
        (ENTRY + ENTRY.replace("input = 2", ""), "5:1: entry 2 of [[prices]]: input is missing"),
        ("prices = [\n{input = 2},\n]", "1:1: entry 1 of [[prices]]: output is missing"),
        ("prices = 3", "1:1: prices is no list of tables: write [[prices]] above each entry"),
        (ENTRY * 1001, "4001:1: there are 1,001 [[prices]], at most 1,000 are read"),
        ("currency = 3", "1:1: currency: it must be up to eight letters in quotes"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_column(text: str, message_: str, files: tuple[Path, Path]) -> None:
    for reader in (config.read, thresholds):
        files[0].write_text(text)
        with pytest.raises(ConfigError) as raised:
            reader()
        place, _, message = message_.partition(": ")
        line, _, column = place.partition(":")
        assert str(raised.value).startswith(f".wiretape.toml, line {line}, column {column}: {message}")
        assert "\n" not in str(raised.value)
        assert "\x1b" not in str(raised.value)


def test_a_mistake_in_the_users_file_names_that_file(files: tuple[Path, Path]) -> None:
    files[1].write_text("[views]\r\nx = '('\r\n")
    with pytest.raises(ConfigError, match=r"config\.toml, line 2, column 1: x under \[views\] is no filter: "):
        config.read()


def test_a_file_that_is_no_text_is_located(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(b"slo = ''\nx\xff")
    with pytest.raises(ConfigError, match=r"^\.wiretape\.toml, line 2, column 2: the text is not UTF-8$"):
        config.read()
    files[0].write_text("a = " + "[" * 9000)
    with pytest.raises(ConfigError, match=r"^\.wiretape\.toml: its tables or lists are nested too deep$"):
        config.read()


def test_an_unreadable_file_is_an_error(files: tuple[Path, Path]) -> None:
    files[0].mkdir()
    with pytest.raises(ConfigError, match=r"^\.wiretape\.toml cannot be read \(Is a directory\)$"):
        config.read()


@pytest.mark.parametrize("theme", ["nrod", "zzz"])
def test_an_unknown_theme_is_an_error(theme: str, files: tuple[Path, Path]) -> None:
    files[0].write_text(f"\ntheme = '{theme}'")
    message = "did you mean nord?" if theme == "nrod" else "there are dark, light and auto"
    with pytest.raises(
        ConfigError, match="line 2, column 1: there is no theme " + theme + ": " + message.replace("?", ".")
    ):
        config.read().check_theme(["nord", "dracula"])
    Config().check_theme(["nord"])
    Config(theme="nord").check_theme(["nord"])


def test_every_configured_command_stops_for_the_same_mistake(tape: Path, files: tuple[Path, Path]) -> None:
    files[0].write_text('[views]\nslow = "("\n')
    output = ".wiretape.toml, line 2, column 1: slow under [views] is no filter: "
    for command in (("show", "@"), ("stats",), ("ls", "-f", "cost>1"), ("export", "@", "--format", "asciicast")):
        assert str(run(tape, *command, code=1).exception).startswith(output)
    run(tape, "ls")


def test_without_any_source_thresholds_are_the_defaults() -> None:
    assert thresholds() == Thresholds() == Thresholds(2000, 20, 0.8, 2, 0.05)
    assert Thresholds(stall_ms=0.5).stall_ns == 500_000


def test_each_source_of_thresholds_comes_before_the_next(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    files[1].write_text("[thresholds]\nstall_ms = 1\nburst_chunks = 1\nburst_share = 0.1\nburst_reads = 1\n")
    files[0].write_text("[thresholds]\nstall_ms = 2\nburst_chunks = 2\nburst_share = 0.2\n")
    monkeypatch.setenv("WIRETAPE_STALL_MS", "3.5")
    monkeypatch.setenv("WIRETAPE_BURST_CHUNKS", "3")
    assert thresholds({"stall_ms": "4", "burst_reads": None}) == Thresholds(4, 3, 0.2, 1, 0.05)


def test_the_help_says_lists_use_the_tapes_flags(tape: Path) -> None:
    output = " ".join(run(tape, "show", "--help").stdout.split())
    assert (
        "Lists, filters and --format json use the flags on the tape, set by the default limits. [default: 0.05]"
        in output
    )


def test_empty_variables_and_unrelated_files_say_nothing(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIRETAPE_STALL_MS", "")
    files[0].write_text('\ufeffslo = "ttft<1s"\n[views]\nslow = "ttft>1s"\n')
    assert thresholds() == Thresholds()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"stall_ms": "-1"}, "--stall-ms is '-1': it must be a number above 0"),
        ({"stall_ms": "nan"}, "--stall-ms is 'nan'"),
        ({"stall_ms": "inf"}, "--stall-ms is 'inf'"),
        ({"burst_chunks": "2.5"}, "--burst-chunks is '2.5': it must be a whole number above 0"),
        ({"stall_ms": "1e305"}, "--stall-ms is '1e305': it must be a number above 0, at most 1,000,000,000"),
        ({"burst_reads": "9" * 400}, "--burst-reads is '9"),
        ({"burst_share": "1.1"}, "--burst-share is '1.1': it must be a number above 0, at most 1"),
    ],
)
def test_a_wrong_option_is_named(value: dict[str, str | None], message: str) -> None:
    with pytest.raises(click.UsageError, match="^" + message.replace(".", r"\.")):
        thresholds(value)


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRETAPE_BURST_WINDOW", "wide")
    with pytest.raises(
        click.UsageError, match=r"^WIRETAPE_BURST_WINDOW is 'wide': it must be a number above 0, at most 1$"
    ):
        thresholds()


def test_a_command_says_them_as_a_usage_error(tape: Path) -> None:
    assert "--stall-ms is 'x'" in run(tape, "show", "@", "--stall-ms", "x", code=2).stderr


RULES = """
slo = "ttft<1s"
[max]
ttft.p95 = "1500ms"
"error_rate" = "1%"
icl_max.p99 = "2s"
[min]
n = 50
tps_user.p50 = 20.5
goodput = "95%"
"""


def test_rules_come_from_toml_with_dots_or_quotes(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("\ufeff" + RULES)
    rules, slo = config.rules(tmp_path / "rules.toml")
    assert slo == "ttft<1s"
    assert [rule.text for rule in rules] == [
        "max ttft.p95=1500ms", "max error_rate=1%", "max icl_max.p99=2s", "min n=50", "min tps_user.p50=20.5",
        "min goodput=95%",
    ]  # fmt: skip


@each_case(
    ("document", "message"),
    [
        ("most.ttft = 1", ", line 1, column 1: 'most' is not one of the tables max and min, nor slo"),
        ("max = 3", ", line 1, column 1: max is no table: write [max]"),
        ("slo = 3", ", line 1, column 1: slo: must be a text in quotes"),
        ("[max", ", line 1, column 5: no TOML: Expected"),
        ("[min]\ngoodput = '0.5'", ", line 2, column 1: min.goodput: '0.5' is not a percentage, such as 1%"),
        ("[max]\nttft.p95 = 1500", ", line 2, column 1: max.ttft.p95: '1500' is not a duration with its unit"),
        ("[max]\nttft.p95 = true", ", line 2, column 1: max.ttft.p95: 'True' is not a duration"),
        ("[max]\n\n  speed = 1", ", line 3, column 3: max.speed: 'speed' is no figure"),
        ("[max]\nttft.p95.x = '1s'", ", line 2, column 1: max.ttft.p95.x: 'ttft.p95.x' is no figure"),
        ("[max]\nttft = {}", ", line 2, column 1: max.ttft: 'ttft' is no figure"),
        ("[max]\n" + ".".join("a" * 3000) + " = 1", ", line 2, column 1: max.a.a."),
        ("[max]\nn = " + "[" * 9000, ": its tables or lists are nested too deep"),
    ],
)
def test_a_mistake_in_rules_is_named_with_its_place(document: str, message: str) -> None:
    Path("rules.toml").write_text(document)
    with pytest.raises(ConfigError) as raised:
        config.rules(Path("rules.toml"))
    assert str(raised.value).startswith(f"rules.toml{message}")

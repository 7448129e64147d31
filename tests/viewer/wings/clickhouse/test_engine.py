"""The engine of ClickHouse gives the same answers as a tape, figure by figure."""

import contextlib
import itertools
import json
import os
import random
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from click.testing import CliRunner

from tests.support import shapes
from tests.support.clickhouse import varied
from tests.support.sample_tape import frames, recorded
from tests.support.session_tape import session_tape
from tests.support.zones import local_time
from wiretape.recorder.clock import Clock
from wiretape.recorder.demo import synthetic
from wiretape.recorder.tape import file
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.cli import group
from wiretape.viewer.query.parser import parse
from wiretape.viewer.query.syntax import Labelled, Match, Or
from wiretape.viewer.record.fields import ACCOUNT_FIELDS, FIELDS, WORKED_OUT
from wiretape.viewer.source.base import Measuring, Page
from wiretape.viewer.source.tape import conditions, live, overview, queries
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.summary import Figures, Method
from wiretape.viewer.wings.clickhouse import address as centres
from wiretape.viewer.wings.clickhouse import figures, setup, source
from wiretape.viewer.wings.clickhouse.address import Credentials
from wiretape.viewer.wings.clickhouse.client import Centre, NotAtCentre
from wiretape.viewer.wings.clickhouse.source import connected
from wiretape.viewer.wings.clickhouse.tables import TABLES

pytest.importorskip("chdb")
METHODS: Final[tuple[Method, ...]] = ("linear", "inverse_cdf", "mlperf")
QUESTIONS = (
    "stats --format csv --by api,operation --all-operations --include-failed",
    "stats --format json --by path,status,finish_reason --all-operations",
    "stats --format csv --by label.wire --percentile-method inverse_cdf",
    "compare --base api:openai.chat --new -api:openai.chat --format json",
    "export --table exchanges --format jsonl --columns id,started_at,labels,flags,tps_user,clock,model,operation,bytes",
    "ls --sort model --columns id,model,labels --format json",
    "stats --all --format table",
    "stats --format table --by model",
    "stats --format csv --by upstream -f -upstream:nowhere,10*",
    "ls --format csv --columns id,upstream -f upstream:127.0.0.1",
    "stats --format csv --by model,status --slo ttft<800ms,icl.p99<200ms,tps>20",
    "stats --format csv --by label.run,hour --include-failed",
    "stats --format csv --by outcome --percentile-method inverse_cdf --all-operations",
    "stats --format csv --by upstream,day --percentile-method mlperf",
    "stats --all --format table --hist icl",
    "stats --format table --hist ttft --by model",
    "stats --all --format table --hist tps",
    "check --max ttft.p95=500ms --max error_rate=3% --format csv",
    "compare --base model:gpt-x --new model:gpt-x-mini --format csv",
    "export --table summary --by model",
    "stats --by input_tokens:50,model --format csv",
    "ls --columns id,model,status,outcome,ttft,gap_p99,flags,max_gap --format csv",
    "ls --sort -ttft -n 9 --columns id,ttft --format csv",
    "stats --as langfuse --format csv",
    "stats --as langfuse --format table",
    "ls --columns id,cost,currency,cache_hit_rate --format csv",
    "stats --columns cost,cost_mean,cost_n,cost_unknown_n,currency --by model,day --format csv",
)
PRICES = """currency = "EUR"
[[prices]]
model = "*mini*"
since = 2026-01-01T00:20:00Z
input = 1.25
cached_input = 0.125
output = 10
[[prices]]
upstream = ["127.0.0.1", "nowhere"]
model = ["gpt*", "*thinker"]
input = 0.1
output = 0.333333
[[prices]]
api = "openai.chat"
input = 3
output = 0
cache_write = 4
"""
FILTERS = (
    "ttft>300ms or gap.max>1s", "model:gpt-*", "-ttft>1s", "gap:20ms..1s", "gap>1s", "gap.p90>20ms", "flag:stall",
    "has:usage", "label:run", "-label:run=r1", "label:team=b*", "since:2026-01-01T00:30Z", "until:2026-01-01T00:10Z",
    "upstream:127.0.0.1", "path:/v1/chat/completions", "id:a", "model~mini|thinker", "tps>20", "-status:200",
    "finish:stop", "is:err", "reads>5", "bytes>100", "tpot<20ms", "-flag:burst", "connection_reused:no", "tpot>20ms",
)  # fmt: skip
HOSTILE = ("it's", "\\", "\\'", "a\0b", "a\nb\tc", "%_\\%", "') OR 1=1 --", "%(x)s", "\u202eé🙂", "''", "{a:String}")


def answer(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(group, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "tape.db"
    with file.writing(path, "a test") as connection:
        for _ in synthetic.fill(connection, 2000, 30, seed=3):
            pass
    return path


@pytest.fixture
def to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An engine's directory, which this process keeps open: each command then opens it in no time."""
    monkeypatch.setattr(os, "nice", lambda _: 0)  # tests after these share the process
    to = f"chdb:{tmp_path}/engine"
    target = centres.parse(to)
    assert target.directory is not None
    setup.make_directory(target.directory)
    with Centre(target, Credentials()) as centre:
        setup.prepare(centre, TABLES, None, lambda _: None)
        yield to


@pytest.fixture(autouse=True)
def priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".wiretape.toml").write_text(PRICES)


def check_list(tape: Path, to: str) -> None:
    """Read the list of a server as the viewer does, page after page, and compare it with that of the tape."""
    with centre_of(to) as connection, queries.opened(tape) as tape_connection:
        finished = conditions.condition(parse("-is:open"))
        for order in (None, ("ttft_ms", True), ("ttft_ms", False), ("model", False), ("icl_p99_ms", True)):
            numbers, page = list[int](), _page(connection, order, None)
            while page.numbers:
                numbers += page.numbers
                page = _page(connection, order, page)
            by = None if order is None else order[0]
            expected = live.numbers(tape_connection, finished, by, descending=order is not None and order[1])
            expected = expected[::-1] if order is None else expected
            ids = [row["id"] for row in queries.numbered(tape_connection, ("id",), expected)]
            assert [str(number).partition(" ")[2] for number in numbers] == ids, order
            some = range(0, len(numbers), 61)
            rows_by_id = {row.id: row for row in source.list_rows(connection, [numbers[place] for place in some])}
            for row in live.listed(tape_connection, [expected[place] for place in some]):
                assert replace(row, no=0, error_message=None) == replace(rows_by_id[row.id], no=0), row.id
        assert source.label_keys(connection) == overview.label_keys(tape_connection, finished)


def _page(connection: Connection, order: tuple[str, bool] | None, page: Page | None) -> Page:
    last_number = None if page is None else page.numbers[-1]
    if order is None:
        return source.newest_page(connection, None, last_number)
    edge = None if page is None or last_number is None else (page.last, last_number)
    return source.ordered_page(connection, None, order[0], descending=order[1], position=edge)


@contextlib.contextmanager
def centre_of(to: str) -> Iterator[Connection]:
    with Centre(centres.parse(to), Credentials()) as centre, connected(centre) as connection:
        yield connection


def execute(to: str, statement: str) -> None:
    with Centre(centres.parse(to), Credentials()) as centre:
        centre.execute(statement)


def check_answers(tape: Path, to: str) -> None:
    """Compare the answers of a server with those of the tape that was shipped to it."""
    finished = ("-f", "-is:open")  # what still runs is not shipped
    for question in QUESTIONS:
        command = question.split()
        code, text = answer(*command, *finished, "--db", tape)
        # Only a tape has sessions, and knows that none of their requests was sent twice.
        text = re.sub(r"(?m),0,0,0\.0$", ",,,", re.sub(r'("duplicate_\w+": ?)0(\.0)?\b', r"\1null", text))
        assert answer(*command, *finished, "--db", to) == (code, text), question
    for zone in ("Asia/Kolkata", "Europe/Berlin", "America/St_Johns"):
        with local_time(zone):
            command = ("stats", "--format", "csv", "--by", "day,hour", "--columns", "day,hour,n", *finished)
            assert answer(*command, "--db", to) == answer(*command, "--db", tape), zone
    for filter_ in FILTERS:
        arguments = ("ls", "--format", "ids", *finished, "-f", filter_)
        assert answer(*arguments, "--db", to) == answer(*arguments, "--db", tape), filter_
    on_server, on_tape = (json.loads(answer("stats", "--as", "otel", "--format", "json", *finished, "--db", address)[1])
                   for address in (to, tape))  # fmt: skip
    absent = "gen_ai.client.operation.time_per_output_chunk"
    assert absent in on_server[0]["omitted"]
    for row in (*on_server, *on_tape):
        row.pop("omitted")
    assert on_server == [row for row in on_tape if row["metric"] != absent]
    pulled = tape.with_name("pulled.db")
    assert answer("pull", "--db", to, "-f", "label:team=batch", "-o", pulled)[0] == 0
    of_batch = ("-f", "label:team=batch -is:open")
    assert answer("stats", "--db", pulled) == answer("stats", "--db", tape, *of_batch)
    assert answer("db", "check", "--db", pulled)[0] == 0
    check_list(tape, to)


def test_a_server_answers_like_its_tapes_despite_hostile_text(
    to: str, tape: Path, wires: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged, ended_tapes = tmp_path / "merged.db", list[Path]()
    tapes = (tape, wires, recorded(tmp_path / "broken.db", list(frames())))
    for host, recording in enumerate(tapes):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: f"host-{host}")
        assert answer("ship", "--db", recording, "--to", to, "--once", "--bodies")[0] == 0
        finished = tmp_path / f"ended-{host}.db"
        assert answer("pull", "--db", recording, "-f", "-is:open", "-o", finished)[0] == 0
        ended_tapes.append(finished)
    assert answer("db", "merge", "--db", merged, *ended_tapes)[0] == 0
    check_answers(merged, to)
    with centre_of(to) as connection:
        for text in HOSTILE:
            filter_ = Or((Labelled(((text, (text,)),)), Match("model", ((text,),))))
            assert queries.count(connection, conditions.condition(filter_)) == 0, text


def test_usual_usage_costs_the_same_on_the_server(to: str, tmp_path: Path) -> None:
    (tmp_path / ".wiretape.toml").write_text(shapes.PRICES)
    tape = shapes.tape(tmp_path / "tape.db")
    assert answer("ship", "--db", tape, "--to", to, "--once")[0] == 0
    for question in (
        "ls -n 99 --columns id,cost,cache_hit_rate --format csv",
        "stats --columns cost,cost_mean,cost_n,cost_unknown_n,usage_missing_n,output_tokens --format csv",
        "stats --columns cost,cost_n,cost_unknown_n --by path --format csv",
    ):
        on_server, on_tape = (answer(*question.split(), "--db", address) for address in (tape, to))
        assert (on_tape, on_server[0]) == (on_server, 0), question


def ids(connection: Connection, filter_: conditions.Condition) -> set[str]:
    return {row["id"] for row in queries.exchanges(connection, ("id",), where=filter_)}


@pytest.mark.parametrize("bodies", [(), ("--bodies",)], ids=["facts", "bodies"])
def test_session_times_are_the_same_on_a_pulled_tape(to: str, tmp_path: Path, bodies: tuple[str, ...]) -> None:
    tape, pulled = session_tape(tmp_path / "tape.db"), tmp_path / "pulled.db"
    assert answer("ship", "--db", tape, "--to", to, "--once", *bodies)[0] == 0
    assert answer("pull", "--db", to, "-o", pulled)[0] == 0
    columns = ",".join(("conversation", *ACCOUNT_FIELDS))
    question = ("ls", "--by", "conversation", "--format", "csv", "--columns", columns)
    assert answer(*question, "--db", pulled) == answer(*question, "--db", tape)


@pytest.mark.damages
def test_every_field_and_filter_agrees_with_the_tape(to: str, tmp_path: Path) -> None:
    tape = varied.tape(tmp_path / "tape.db", 300)
    fields = tuple(name for name in FIELDS if name not in (*WORKED_OUT, "error_message"))
    assert answer("ship", "--db", tape, "--to", to, "--once")[0] == 0
    with centre_of(to) as server, queries.opened(tape) as tape_connection:
        on_tape, at_centre = (
            {row["id"]: row for row in queries.exchanges(connection, fields)}
            for connection in (tape_connection, server)
        )
        assert on_tape == at_centre
        different, compared = [], 0
        for text in itertools.islice(varied.filters(), 0, None, 4):  # each is a statement to prepare
            filter_ = conditions.condition(parse(text))
            with contextlib.suppress(NotAtCentre):
                is_same = ids(server, filter_) == ids(tape_connection, filter_)
                compared += 1
                different += [] if is_same else [text]
        assert (different, compared > 500) == ([], True)


def test_a_list_that_is_followed_has_once_what_arrives(to: str) -> None:
    def insert(*rows: tuple[str, int]) -> None:
        values = ", ".join(
            f"(toDateTime(1767225600), '{id}', {version}, '2026-01-01T00:00:00.00{id[-1]}Z', 'complete', 'end', 1)"
            for id, version in rows
        )
        columns = "started, id, row_version, started_at, outcome, ended_by, decoder_version"
        execute(to, f"INSERT INTO wiretape.exchanges ({columns}) VALUES {values}")

    insert(("e1", 1), ("e2", 1), ("e3", 1))
    arriving_next = iter([[("e2", 2), ("e5", 1)], [("e4", 1), ("e2", 3)]])
    with centre_of(to) as connection:
        followed = source.followed(
            connection,
            ("id",),
            last=2,
            wait=lambda: insert(*next(arriving_next)),
            clock=Clock(wall_ns=lambda: (1767225600 + 1800) * 10**9),
        )
        assert [[row["id"] for row in next(followed)] for _ in range(3)] == [["e2", "e3"], ["e5"], ["e4"]]


def gaps_of_every_kind() -> dict[str, list[int]]:
    """Return gaps, in ns, by the model of the one exchange that has them."""
    chance = random.Random(1)
    gaps_by_model = {
        f"n{n}": [chance.randrange(10**8) for _ in range(n)] for n in (0, 1, 2, 3, 10, 11, 20, 21, 100, 101, 2000)
    }
    gaps_by_model |= {f"0 and {n}": [0] * 7 + gaps_by_model[f"n{n}"] for n in (1, 2, 101)}
    gaps_by_model |= {"equal": [10**9] * 50, "zeros": [0] * 30, "ties": [chance.randrange(3) for _ in range(999)]}
    return gaps_by_model | {"hours": [chance.randrange(10**13) for _ in range(500)]}


def test_percentiles_of_gaps_equal_the_tapes_at_any_size(to: str) -> None:
    gaps_by_model = gaps_of_every_kind()
    inserted = ", ".join(
        f"(toDateTime(1767225600), '{model}', 1, '{model}', 'complete', 'end', 1, {gaps}, "
        f"[{gaps.count(0)}, {len(gaps) - gaps.count(0)}])"
        for model, gaps in gaps_by_model.items()
    )
    columns = "started, id, row_version, request_model, outcome, ended_by, decoder_version, icl, gap_hist"
    execute(to, f"INSERT INTO wiretape.exchanges ({columns}) VALUES {inserted}")
    with centre_of(to) as connection:
        for exact, method in itertools.product((True, False), METHODS):
            for one in figures.groups(connection, ("model",), None, Measuring(method, exact=exact), most=1):
                check_gaps(one, gaps_by_model[str(one.key[0])], method)


def check_gaps(found: Figures, gaps: list[int], method: Method) -> None:
    """Compare a server's figures of gaps with those of a tape."""
    for name, values in (("icl", gaps), ("gap", [gap for gap in gaps if gap])):
        expected = summary.figures(np.array(values, np.int64), method, 1e6)
        for statistic, value in found.statistics[name].items():
            known, filter_ = expected[statistic], (found.key, name, statistic, method)
            if found.is_estimated and statistic.startswith("p") and known is not None:
                assert value is None or (expected["min"] or 0) <= value <= (expected["max"] or 0), filter_
            else:
                assert value == (known and pytest.approx(known, rel=1e-9, abs=1e-6)), filter_

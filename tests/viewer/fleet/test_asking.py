"""A real server is asked what a tape is asked: the answers are the same, figure by figure."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from recorder.commands import centre as centres
from recorder.demo import synthetic
from recorder.tape import file
from tests.viewer.fleet import servers
from viewer.cli import group
from viewer.filters.syntax import Labelled, Match, Or
from viewer.fleet import reading
from viewer.fleet.client import Centre
from viewer.tape import conditions, queries

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        servers.missing("clickhouse-server") is not None, reason=servers.missing("clickhouse-server") or ""
    ),
]
QUESTIONS = (
    "stats --format table",
    "stats --format csv --by model,status --slo ttft<800ms,icl.p99<200ms,tps>20",
    "stats --format csv --by label.run,hour --include-failed",
    "stats --format csv --by outcome --percentile-method inverse_cdf --all-operations",
    "stats --format csv --by upstream,day --percentile-method mlperf",
    "stats --format table --hist icl",
    "stats --format table --hist ttft --by model",
    "stats --format table --hist tps",
    "check --max ttft.p95=500ms --max error_rate=3% --format csv",
    "compare --base model:gpt-x --new model:gpt-x-mini --format csv",
    "export --table summary --by model",
    "ls --columns id,model,status,outcome,ttft,gap_p99,flags,max_stall --format csv",
    "ls --sort -ttft -n 9 --columns id,ttft --format csv",
)
FILTERS = (
    "ttft>300ms or gap.max>1s", "model:gpt-*", "-ttft>1s", "gap:20ms..1s", "gap>1s", "gap.p90>20ms", "flag:stall",
    "has:usage", "label:run", "-label:run=r1", "label:team=b*", "since:2026-01-01T00:30Z", "until:2026-01-01T00:10Z",
    "upstream:127.0.0.1", "path:/v1/chat/completions", "id:a", "model~mini|thinker", "tps>20", "-status:200",
    "finish:stop", "is:err", "reads>5", "bytes>100", "tpot<20ms", "-flag:burst", "connection_reused:no", "tpot>20ms",
)  # fmt: skip
HOSTILE = ("it's", "\\", "\\'", "a\0b", "a\nb\tc", "%_\\%", "') OR 1=1 --", "%(x)s", "\u202eé🙂", "''", "{a:String}")


def answer(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(group, [str(one) for one in arguments])
    return result.exit_code, result.stdout


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "tape.db"
    with file.writing(path, "a test") as connection:
        for _ in synthetic.fill(connection, 2000, 30, seed=3):
            pass
    return path


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(centres.USER, "default")
    monkeypatch.setenv(centres.PASSWORD, servers.PASSWORD)


def check_answers(tape: Path, to: str) -> None:
    """Ask a centre that the tape is shipped to now what the tape is asked."""
    ended = ("-f", "-is:open")  # what still runs is not shipped
    assert answer("ship", "--db", tape, "--to", to, "--once", "--bodies")[0] == 0
    for question in QUESTIONS:
        command = question.split()
        assert answer(*command, *ended, "--db", to) == answer(*command, *ended, "--db", tape), question
    for where in FILTERS:
        asked = ("ls", "--format", "ids", *ended, "-f", where)
        assert answer(*asked, "--db", to) == answer(*asked, "--db", tape), where
    pulled = tape.with_name("pulled.db")
    assert answer("pull", "--db", to, "-f", "label:team=batch", "-o", pulled)[0] == 0
    of_batch = ("-f", "label:team=batch -is:open")
    assert answer("stats", "--db", pulled) == answer("stats", "--db", tape, *of_batch)
    assert answer("db", "check", "--db", pulled)[0] == 0


def test_a_centre_answers_as_the_tape_does_and_takes_hostile_texts_as_such(tape: Path, tmp_path: Path) -> None:
    with servers.one(tmp_path) as server:
        to = f"clickhouse://127.0.0.1:{server.http}/wiretape"
        assert answer("fleet", "init", "--to", to)[0] == 0
        check_answers(tape, to)
        credentials = centres.Credentials("default", servers.PASSWORD)
        with Centre(centres.parse(to), credentials) as centre, reading.opened(centre) as connection:
            for text in HOSTILE:
                where = Or((Labelled(((text, (text,)),)), Match("model", ((text,),))))
                assert queries.count(connection, conditions.condition(where)) == 0, text


@pytest.mark.skipif(
    servers.missing("clickhouse-server", "zookeeper") is not None,
    reason=servers.missing("clickhouse-server", "zookeeper") or "",
)
def test_so_does_one_of_two_shards(tape: Path, tmp_path: Path) -> None:
    with servers.cluster(tmp_path, replicas=1) as found:
        to = f"clickhouse://{','.join(f'127.0.0.1:{one.http}' for one in found)}/wiretape"
        assert answer("fleet", "init", "--to", to, "--cluster", "both")[0] == 0
        check_answers(tape, to)

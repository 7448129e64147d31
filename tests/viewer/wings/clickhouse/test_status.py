"""The progress of a fleet is shown to every account that may read it, also without the size of the tables."""

from pathlib import Path

from tests.support.clickhouse.engine import Engine, centre, running
from wiretape.viewer.wings.clickhouse import status


class Cluster(Engine):
    """A server of several nodes; only one answers this account."""

    def executed(self, statement: bytes, parameters: dict[str, str]) -> bytes:
        if b"engine_full" in statement:
            statement = b"SELECT 'Distributed(both, wiretape, exchanges_local)' AS engine_full FORMAT Native"
        if b"cluster('both', system, parts)" in statement:
            raise RuntimeError("Code: 497. DB::Exception: it's necessary to have the grant READ ON REMOTE.")
        return super().executed(statement, parameters)


def test_cluster_table_sizes_are_omitted_without_permission(tmp_path: Path) -> None:
    notes: list[str] = []
    with running(tmp_path / "engine", Cluster) as engine, centre(engine) as server:
        assert list(status.rows(server, notes.append)) == []
    assert [note.partition(": http")[0] for note in notes] == ["the sizes of tables are left out"]
    assert "READ ON REMOTE" in notes[0]

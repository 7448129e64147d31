"""The progress of a fleet is shown to every account that may read it, also without the size of the tables."""

import httpx

from tests.support.clickhouse.engine import HEADERS, Engine, centre, failed
from wiretape.viewer.ship.clickhouse import status


class Cluster(Engine):
    """A server of several nodes; only one answers this account."""

    def answered(self, request: httpx.Request) -> httpx.Response:
        query = request.content.decode()
        if "engine_full" in query:
            return httpx.Response(
                200, headers=HEADERS, json={"data": [["Distributed(both, wiretape, exchanges_local)"]]}
            )
        if "cluster('both', system, parts)" in query:
            return failed(500, 497, "it's necessary to have the grant READ ON REMOTE")
        return super().answered(request)


def test_what_the_tables_of_a_cluster_take_is_left_out_for_an_account_that_may_not_ask() -> None:
    notes: list[str] = []
    with centre(Cluster()) as there:
        assert list(status.rows(there, notes.append)) == []
    assert [note.partition(": http")[0] for note in notes] == ["the sizes of tables are left out"]
    assert "READ ON REMOTE" in notes[0]

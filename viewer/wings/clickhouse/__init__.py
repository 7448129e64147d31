"""ClickHouse: a server of many recorders, or its engine in this process, as a source and as a sink of exchanges."""

from wiretape.viewer.contracts import Address, Command, Extra, Wing

_SERVER = ("clickhouse://", "clickhouse://HOST[:PORT][,HOST[:PORT]…]/DATABASE")
_DIRECTORY = ("chdb:", "chdb:DIR")

WING = Wing(
    commands=(Command(
        "fleet", f"{__name__}.command:fleet", "Many machines", "pull", "Set up and watch the ClickHouse server.",
        ("fleet hours --to clickhouse://db.example.com/wiretape",
         "fleet init --to clickhouse://db.example.com/wiretape --print",
         "fleet status --to clickhouse://db.example.com/wiretape"),
        {
            "init": (
                "Make the tables of a server, or add new columns.",
                ("fleet init --to clickhouse://db.example.com/wiretape",
                 "fleet init --to clickhouse://db.example.com/wiretape --print",
                 "fleet init --to clickhouse://db.example.com/wiretape --cluster main --print"),
            ),
            "hours": (
                "Count the exchanges of each hour.",
                ("fleet hours --to clickhouse://db.example.com/wiretape",
                 "fleet hours --to 'clickhouse://db.example.com:8123/wiretape?tls=no'",
                 "fleet hours --to clickhouse://ops@db.example.com/wiretape"),
            ),
            "status": (
                "Show the progress of each host, and the tables' sizes.",
                ("fleet status --to clickhouse://db.example.com/wiretape",
                 "fleet status --to clickhouse://db.example.com/wiretape --format json",
                 "fleet status --to 'clickhouse://db.example.com:8123/wiretape?tls=no'"),
            ),
        },
    ),),
    sources=tuple(Address(*address, f"{__name__}.opening:place") for address in (_SERVER, _DIRECTORY)),
    sinks=tuple(Address(*address, f"{__name__}.address:parse") for address in (_SERVER, _DIRECTORY)),
    extras=(
        Extra("clickhouse", "clickhouse_connect", "ship --to clickhouse://…"),
        Extra("chdb", "chdb", "ship --to chdb:DIR"),
    ),
)  # fmt: skip

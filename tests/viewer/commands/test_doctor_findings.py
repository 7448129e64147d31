"""The findings of `doctor` for each fact about a machine; none contains a secret."""

from collections.abc import Callable
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from tests.support.cases import each_case
from wiretape.recorder.process import RecorderRun
from wiretape.viewer.commands import doctor
from wiretape.viewer.commands.doctor import Finding

NOON, S = "2026-03-01T12:00:00.000000Z", 10**9
NOON_NS = round(datetime.fromisoformat(NOON).timestamp()) * S
PATH = PurePosixPath("/tapes/tape.db")
BASES = {"OPENAI_BASE_URL": "http://127.0.0.1:8377/v1"}
NO_BASES = {"OPENAI_BASE_URL": ""}


@each_case(
    ("check", "facts", "level", "message"),
    [
        (doctor.judge_sqlite, ((3, 51, 3),), "ok", "3.51.3"),
        (doctor.judge_sqlite, ((3, 40, 1),), "ok", "no other program"),
        (doctor.judge_sqlite, ((3, 50, 7),), "ok", "3.50.7"),
        (doctor.judge_sqlite, ((3, 30, 0),), "problem", "too old"),
        (doctor.judge_tape, (PATH, True, None, "0001"), "ok", "/tapes/tape.db, schema 0001"),
        (doctor.judge_tape, (PATH, False, None, "0001"), "note", "there is none at /tapes/tape.db"),
        (doctor.judge_tape, (PATH, True, "it is old: upgrade it", "0001"), "problem", "it is old"),
        (doctor.judge_directory, (PATH.parent, True, True), "ok", "may be written"),
        (doctor.judge_directory, (PATH.parent, False, True), "ok", "will be made"),
        (doctor.judge_directory, (PATH.parent, True, False), "problem", "may not be written"),
        (doctor.judge_privacy, ({"t": 0o600, "t-wal": 0o600}, []), "ok", "t 0600"),
        (doctor.judge_privacy, ({"t": 0o644, "t-wal": 0o600}, []), "problem", "t has mode 0644"),
        (doctor.judge_privacy, ({"t": 0o644}, ["t"]), "note", "another user"),
        (doctor.judge_shipping, ("db at h:1", 0, 0), "ok", "all to db at h:1"),
        (
            doctor.judge_shipping,
            ("db at h:1", 1, 3 * S),
            "ok",
            "1 exchange not yet to db at h:1, the first settled 3 s",
        ),
        (doctor.judge_shipping, ("db at h:1", 7, 3600 * S), "note", "7 exchanges not yet to db at h:1"),
        (doctor.judge_shipping, ("db at h:1", 7, None), "note", "7 exchanges not yet to db at h:1"),
        (doctor.judge_recorder, ("", None, NOON_NS), "ok", "none is running"),
        (doctor.judge_recorder, ("", RecorderRun(1, NOON, NOON), NOON_NS + 100 * S), "ok", "none is running"),
        (doctor.judge_recorder, ("", RecorderRun(1, NOON), NOON_NS + 100 * S), "note", "was killed"),
        (doctor.judge_recorder, ("wiretape record", RecorderRun(1, NOON), NOON_NS + 3 * S), "ok", "3 s ago"),
        (doctor.judge_recorder, ("wiretape record", RecorderRun(1, NOON), NOON_NS + 90 * S), "note", "90 s ago"),
        (
            doctor.judge_recorder,
            ("wiretape record", RecorderRun(1, NOON, is_gone=True), NOON_NS),
            "problem",
            "relay is gone",
        ),
        (
            doctor.judge_recorder,
            ("wiretape db rebuild", RecorderRun(1, NOON, NOON), NOON_NS),
            "ok",
            "wiretape db rebuild holds",
        ),
        (doctor.judge_space, (5 << 30,), "ok", "5.0 GiB"),
        (doctor.judge_space, (512 << 20,), "note", "0.5 GiB"),
        (doctor.judge_space, (1 << 20,), "problem", "0.0 GiB"),
        (doctor.judge_filesystem, ("ext4",), "ok", "ext4"),
        (doctor.judge_filesystem, (None,), "ok", "unknown kind"),
        (doctor.judge_filesystem, ("nfs4",), "problem", "nfs4"),
        (doctor.judge_filesystem, ("tmpfs",), "note", "memory"),
        (doctor.judge_flush, ([10**6] * 3,), "ok", "1.0 ms"),
        (doctor.judge_flush, ([10**8] * 3,), "note", "100.0 ms"),
        (doctor.judge_open_files, (20000, 20000, 65536), "ok", "20,000 at a time"),
        (doctor.judge_open_files, (1024, 1 << 20, 65536), "ok", "65,536 at a time, to which a recorder raises 1,024"),
        (doctor.judge_open_files, (256, 1024, 65536), "note", "1,024 at a time"),
        (doctor.judge_open_files, (40, 40, 65536), "problem", "40 at a time"),
        (doctor.judge_clock, (60,), "ok", "60 ns"),
        (doctor.judge_clock, (15_600_000,), "note", "15.6 ms"),
        (doctor.judge_certificates, ([], True), "ok", "system"),
        (doctor.judge_certificates, ([], False), "problem", "no https"),
        (doctor.judge_certificates, (["SSL_CERT_FILE"], True), "problem", "SSL_CERT_FILE names"),
        (doctor.judge_upstream, ("https://u:pw@x/secret", 10**7, ""), "ok", "https://x was reached in 10 ms"),
        (doctor.judge_upstream, ("https://u:pw@x:1/secret", None, "refused"), "problem", "https://x:1 cannot"),
        (doctor.judge_terminal, (False, True, None, 80), "ok", "TSV"),
        (doctor.judge_terminal, (True, True, "256", 80), "ok", "80 cells wide, UTF-8, colours: 256"),
        (doctor.judge_terminal, (True, False, None, 80), "note", "ASCII"),
        (doctor.judge_terminal, (True, True, None, 40), "note", "left out"),
        (doctor.judge_extra, (doctor.EXTRAS[0], True), "ok", "is there"),
        (doctor.judge_extra, (doctor.EXTRAS[0], False), "note", "no Parquet"),
    ],
)
def test_a_fact_is_judged(check: Callable[..., Finding], facts: tuple[Any, ...], level: str, message: str) -> None:
    finding = check(*facts)
    assert (finding.level, message in finding.found) == (level, True), finding
    assert finding.level == "ok" or finding.advice or finding.check == "filesystem"


@each_case(
    ("urls", "upstreams", "level", "message"),
    [
        ({"OPENAI_BASE_URL": "http://127.0.0.1:8377/v1/"}, BASES, "ok", "points at the recorder"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:8377"}, BASES, "note", "another path"),
        ({"OPENAI_BASE_URL": "https://u:sk-secret@api.example.com/sk-secret"}, BASES, "note", "not at the recorder"),
        ({}, BASES, "note", "is not set"),
        ({"OPENAI_BASE_URL": "http://localhost:8377/sk-secret"}, NO_BASES, "note", "no recorder of this tape runs"),
        (
            {"OPENAI_BASE_URL": "https://sk-secret@api.example.com:8443/v1"},
            NO_BASES,
            "ok",
            "https://api.example.com:8443",
        ),
        ({"OPENAI_BASE_URL": "sk-secret"}, NO_BASES, "ok", "no URL"),
        ({"OPENAI_BASE_URL": "http://[sk-secret"}, NO_BASES, "ok", "no URL"),
    ],
)
def test_where_sdks_are_pointed_is_judged_without_a_secret(
    urls: dict[str, str], upstreams: dict[str, str], level: str, message: str
) -> None:
    (finding,) = doctor.judge_base_urls(urls, upstreams)
    assert (finding.level, message in finding.found) == (level, True), finding
    assert "sk-secret" not in f"{finding}"


def test_unset_variables_without_a_recorder_are_not_mentioned() -> None:
    assert list(doctor.judge_base_urls({}, NO_BASES)) == []
    assert list(doctor.judge_proxies({}, NO_BASES)) == []


@each_case(
    ("environ", "level"),
    [
        ({"http_proxy": "http://u:sk-secret@proxy:1"}, "note"),
        ({"HTTP_PROXY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "problem"),
        ({"http_proxy": "x", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "NO_PROXY": "a, localhost"}, "ok"),
        ({"ALL_PROXY": "x", "no_proxy": "*"}, "ok"),
    ],
)
def test_a_proxy_between_sdk_and_recorder_is_a_problem(environ: dict[str, str], level: str) -> None:
    (finding,) = doctor.judge_proxies(environ, BASES)
    assert finding.level == level
    assert "sk-secret" not in f"{finding}"


def test_a_proxy_for_https_spares_an_http_recorder() -> None:
    environ = {"HTTPS_PROXY": "x", "https_proxy": "x", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    assert list(doctor.judge_proxies(environ, BASES)) == []


def test_the_innermost_mount_says_the_kind_of_filesystem() -> None:
    mounts = (
        "22 27 0:21 / / rw - ext4 /dev/a rw\n"
        "23 22 0:22 / /home rw shared:1 - nfs4 server:/home rw\n"
        "24 22 0:23 / /ho rw - tmpfs none rw\n"
        "25 23 0:24 / /home/a\\040b rw - btrfs /dev/b rw\n"
        "nonsense\n"
    )
    of = {"/home/x/t": "nfs4", "/home/a b/t": "btrfs", "/hom": "ext4", "/ho/t": "tmpfs"}
    assert {path: doctor.filesystem_of(PurePosixPath(path), mounts) for path in of} == of
    assert doctor.filesystem_of(PurePosixPath("/x"), "") is None

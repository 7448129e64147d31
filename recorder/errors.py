"""The exception tree.

    WiretapeError
    ├── NotFound            no such tape, no such exchange, or an id that fits several        exit 4
    │   └── NotShipped      the bytes of an exchange that was pulled without its body         exit 4
    ├── TapeError
    │   ├── SchemaMismatch  the tape is older or newer than this program                      exit 5
    │   │   └── SchemaMissing  the tape has no schema yet                                     exit 5
    │   ├── TapeBusy        another process writes the tape, or it cannot be written          exit 6
    │   ├── TapeGone        the tape was removed or replaced while it was used                exit 1
    │   ├── ForeignFile     the file is not a tape                                            exit 8
    │   └── TapeDamaged     a check of the tape failed                                        exit 3
    ├── OutputRefused       an output file would replace a protected file                       exit 2
    ├── ConfigError         a configuration file, one of rules, or a variable has a mistake  exit 2
    ├── CannotListen        the address is taken or may not be listened on                    exit 7
    ├── WriterFailed        the writer process could not be started or kept running           exit 1
    └── UpstreamError       an upstream could not be reached, broke, or ran into a limit
        └── ProxyRefusal    the proxy on the way to it answered CONNECT by an error

Each message names the failure, its cause and the remedy. The command line prints it as one line and exits
with `exit_code`. An `UpstreamError` never reaches the command line: it becomes the outcome of an exchange.
"""

import sqlite3

from wiretape.recorder.facts import EndedBy


class WiretapeError(Exception):
    """Any failure that wiretape foresees; `exit_code` is the exit code of the command line."""

    exit_code = 1

    def __str__(self) -> str:
        """The message, as text that can be encoded: a path in it need not be UTF-8."""
        return super().__str__().encode("utf-8", "backslashreplace").decode()


class NotFound(WiretapeError):
    """The requested tape or exchange does not exist, or the id given fits several exchanges."""

    exit_code = 4


class NoResultFound(LookupError):
    """A query found no row, though there was one before; its caller names the missing record."""


class NotShipped(NotFound):
    """A request for the bytes of an exchange that was pulled from a server without its body."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"the bytes of exchange {id} were not shipped, only its facts, measures and gaps: look at the tape that it "
            "was recorded on, or ship that with --bodies and pull the exchange to another tape"
        )


class TapeError(WiretapeError):
    """The tape cannot be used as asked."""


class SchemaMismatch(TapeError):
    """The tape's schema is not the one that this program reads and writes."""

    exit_code = 5


class SchemaMissing(SchemaMismatch):
    """The tape has no schema at all: a recorder is just creating it, or was stopped before it did."""


class TapeBusy(TapeError):
    """Another process holds the tape, or it may not be written."""

    exit_code = 6


class TapeGone(TapeError):
    """The tape was removed or replaced while it was used."""


class ForeignFile(TapeError):
    """The file is not a wiretape tape."""

    exit_code = 8


class TapeDamaged(TapeError):
    """A check found the tape damaged."""

    exit_code = 3


class OutputRefused(WiretapeError):
    """An output file was named that must not be replaced: a database, the tape itself, no regular file."""

    exit_code = 2


class ConfigError(WiretapeError):
    """A configuration file, or one of rules, cannot be read or has a mistake."""

    exit_code = 2


class CannotListen(WiretapeError):
    """The listening address cannot be used."""

    exit_code = 7


class WriterFailed(WiretapeError):
    """The writer process could not be started or kept running."""


class UpstreamError(WiretapeError):
    """An upstream exchange ended badly; `ended_by` is the fact as `facts.ENDED_BY` names it.

    `code` is the HTTP/2 error code of a stream that upstream reset, `reset_code` names it (`rst_cancel`).
    """

    def __init__(self, ended_by: EndedBy, message: str, code: int | None = None, reset_code: str | None = None) -> None:
        super().__init__(message)
        self.ended_by, self.code, self.reset_code = ended_by, code, reset_code


class ProxyRefusal(UpstreamError):
    """The refusal of a proxy on the way to an upstream: the status and the reason of its answer to `CONNECT`."""

    def __init__(self, status: int, reason: bytes, message: str) -> None:
        super().__init__("refused", message)
        self.status, self.reason = status, reason


BY_EXIT_CODE: dict[int, type[WiretapeError]] = {
    kind.exit_code: kind
    for kind in (WriterFailed, NotFound, SchemaMismatch, TapeBusy, ForeignFile, TapeDamaged, CannotListen)
}

LASTING = (TapeGone, TapeDamaged, ForeignFile)
"""Permanent failures of a tape: a retry would not help."""


DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's codes for a file that it cannot read."""


def sqlite_code(error: BaseException) -> int | None:
    """Return SQLite's primary result code of an error of sqlite3 or SQLAlchemy: `sqlite3.SQLITE_FULL` and its like.

    None if it has none: it is not SQLite's, or Python could not decode SQLite's text.
    """
    code: int | None = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    return None if code is None else code & 0xFF

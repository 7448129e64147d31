"""A destination's progress with a tape: a small private file beside the tape, one for each destination.

A shipper only reads the tape: its one writer would otherwise wait. So the tape numbers settled exchanges
(`settlements`), and the progress is kept here, table by table: all up to one version is acknowledged, and the batch
between that and another was being sent. It is sent again unchanged, byte for byte, so that the server recognises it.
If the file is lost, all is sent again, and nothing is counted twice.
"""

import contextlib
import fcntl
import glob
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wiretape.recorder import paths
from wiretape.recorder.destinations import TENANT
from wiretape.recorder.errors import TapeBusy, WiretapeError


class Progress(msgspec.Struct, frozen=True):
    """The progress of a table: all up to version `until` is there; the batch up to `sending` may be there."""

    until: int = 0
    sending: int | None = None


class _Contents(msgspec.Struct, frozen=True):
    centre: str
    tape: str | None
    tables: dict[str, Progress]
    tenant: str = ""
    state: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(slots=True)
class Acknowledged:
    """The progress of shipping one tape to one destination.

    `state` is JSON of the sender's own, written together with its progress.
    """

    path: Path
    centre: str
    tape: str | None
    tables: dict[str, Progress]
    tenant: str = ""
    state: bytes = b"null"

    def identify(self, tape: str | None, tenant: str = "") -> None:
        """Set the tape's identity: the progress of another tape, which had this name before, is dropped.

        Raises `WiretapeError` if it was shipped for another tenant: exchanges derived again would count for both.
        """
        if tape != self.tape and self.tape is not None:
            self.tables, self.state = {}, b"null"
        self.tape = tape
        if self.tables and tenant != self.tenant:
            raise WiretapeError(
                f"this tape was shipped to {self.centre} with {_labelled(self.tenant)}, not with {_labelled(tenant)}: "
                f"ship it with the same; to change it, delete its exchanges there, and {self.path} here, first"
            )
        self.tenant = tenant

    def of(self, table: str) -> Progress:
        return self.tables.get(table, Progress())

    def put(self, table: str, progress: Progress) -> None:
        """Keep the progress of a table. Raises `WiretapeError` if it cannot be written."""
        self.tables[table] = progress
        state = msgspec.Raw(self.state)
        contents = msgspec.json.encode(_Contents(self.centre, self.tape, self.tables, self.tenant, state))
        new = self.path.with_name(f"{self.path.name}.new")
        try:
            with open(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
                file.write(contents)
            new.replace(self.path)
        except OSError as error:
            raise _unusable(self.path, error) from error


def path_of(tape: Path, centre: str) -> Path:
    """Return the path of the progress file of a tape and a destination."""
    tape = paths.real(tape)
    return tape.with_name(f"{tape.name}.shipped-{re.sub('[^A-Za-z0-9._-]+', '-', centre)}")


@contextlib.contextmanager
def locked(tape: Path, centre: str, wait: Callable[[], bool] = lambda: False) -> Iterator[Acknowledged]:
    """Yield the progress of a tape, locked against other processes that ship it to the same destination.

    While another one does, `wait` waits, and returns True to go on waiting. Raises `TapeBusy` and `WiretapeError`.
    """
    path = path_of(tape, centre)
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unusable(lock, error) from error
    try:
        while True:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if not wait():
                raise TapeBusy(f"{tape} is being shipped to {centre} already, by another process")
        contents = _contents(path)
        if contents is None or contents.centre != centre:  # one whose name is spelled alike
            contents = _Contents(centre, None, {})
        tape_id, tables, state = contents.tape, contents.tables, bytes(contents.state)
        yield Acknowledged(path, centre, tape_id, tables, contents.tenant, state)
    finally:
        os.close(descriptor)


def destinations(tape: Path, identity: str | None) -> Iterator[tuple[str, int]]:
    """Yield the destinations of a tape, each with the version up to which all of it is there."""
    tape = paths.real(tape)
    for path in sorted(tape.parent.glob(f"{glob.escape(tape.name)}.shipped-*")):
        if path.suffix in (".lock", ".new"):
            continue
        contents = None
        with contextlib.suppress(WiretapeError):  # another user's
            contents = _contents(path)
        if contents is not None:
            tables = contents.tables.values() if contents.tape == identity else ()
            yield contents.centre, min((progress.until for progress in tables), default=0)


def _contents(path: Path) -> _Contents | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Contents)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from error
    except msgspec.MsgspecError:  # cut short by a crash of the machine: all is sent again
        return None


def _labelled(tenant: str) -> str:
    return f"--label {TENANT}={tenant}" if tenant else f"no label {TENANT}"


def _unusable(path: Path, error: OSError) -> WiretapeError:
    return WiretapeError(
        f"{path} cannot be used ({error.strerror}): the progress of shipping is kept there, beside the tape"
    )

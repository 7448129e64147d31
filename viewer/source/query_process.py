"""Queries of a program in a process of its own: SQLite does not interrupt a function that runs, but a process ends.

The process waits for the next query, so that none pays for its start. It ends with its parent: at the end of its input,
or, if a function holds it at that time, at its limit of CPU time.
"""

import contextlib
import math
import multiprocessing.connection
import pickle
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, Final, cast

from wiretape.recorder import children
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.source import sql
from wiretape.viewer.source.sql import SqlAnswer

_GRACE_S: Final = 0.25
"""Time after the timeout of a query in which its process may still report that it has stopped by itself."""
_START_S: Final = 30.0
"""Time allowed for the start of a process."""
_CPU_S: Final = 2
"""CPU time allowed for a query whose parent may be gone, in seconds."""
_CHILD: Final = "from wiretape.viewer.source.query_process import answer_queries; answer_queries()"


class QueryProcess:
    """The process that answers queries, one at a time; one that was killed is replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False

    def start(self) -> None:
        with self._lock:
            self._running()

    def answer(self, path: Path, query: str, limit: int, *, texts: bool) -> SqlAnswer:
        """Answer a query as `sql.answer`, or kill the process shortly after the timeout. Raises `WiretapeError`."""
        with self._lock:
            process = self._running()
            try:
                if not self._is_ready:
                    _receive(process, _START_S)
                    self._is_ready = True
                pickle.dump((path, query, limit, texts), cast(IO[bytes], process.stdin))
                cast(IO[bytes], process.stdin).flush()
                answer = _receive(process, sql.TIMEOUT_S + _GRACE_S)
            except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
                self._kill()
                raise WiretapeError("the query failed: its process has ended") from error
            except TimeoutError as error:
                self._kill()
                self._running()
                raise WiretapeError(sql.STOPPED) from error
        if isinstance(answer, SqlAnswer):
            return answer
        raise WiretapeError(answer)

    def close(self) -> None:
        """Kill the process, also in the middle of a query."""
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._kill()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._kill()
        if self._process is None:
            self._process = subprocess.Popen(
                children.python("-c", _CHILD),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=children.environment(),
                start_new_session=True,
            )
        return self._process

    def _kill(self) -> None:
        process, self._process, self._is_ready = self._process, None, False
        if process is not None:
            process.kill()
            with contextlib.suppress(BrokenPipeError), process:
                pass


def _receive(process: "subprocess.Popen[bytes]", timeout_s: float) -> Any:
    """Return the next object of a process. Raises `TimeoutError`, and `EOFError` if the process has ended."""
    output = cast(IO[bytes], process.stdout)
    if not multiprocessing.connection.wait([output], timeout_s):  # type: ignore[list-item]
        raise TimeoutError
    return pickle.load(output)


def answer_queries() -> None:
    """Answer the queries of standard input on standard output, after one object that says that they can be sent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold recorded texts
    with contextlib.suppress(EOFError, BrokenPipeError):
        answer: SqlAnswer | str | None = None
        while True:
            pickle.dump(answer, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            path, query, limit, texts = pickle.load(sys.stdin.buffer)
            used, (_, hard) = resource.getrusage(resource.RUSAGE_SELF), resource.getrlimit(resource.RLIMIT_CPU)
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime) + _CPU_S, hard))
            try:
                answer = sql.answer(path, query, limit, texts=texts)
            except WiretapeError as error:
                answer = str(error)

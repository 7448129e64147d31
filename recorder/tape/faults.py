"""Tracebacks of wiretape's own faults, without credentials: an error may quote a body, a header or an argument."""

import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from wiretape.recorder.tape.redact import message, shown


def report(error: BaseException) -> None:
    """Print the traceback of an error on standard error."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    print("\n".join(map(shown, lines)), file=sys.stderr)


def report_all() -> None:
    """Report what ends this process, or a thread of it, by `report`."""

    def report_of_process(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        report(error)

    def report_of_thread(end: threading.ExceptHookArgs) -> None:
        if end.exc_value is not None:
            report(end.exc_value)

    sys.excepthook, threading.excepthook = report_of_process, report_of_thread


def report_of_loop(_loop: object, context: dict[str, Any]) -> None:
    """Report what an event loop met outside of any caller: an exception handler of asyncio."""
    print(message(context["message"]), file=sys.stderr)
    error = context.get("exception")
    if error is not None:
        report(error)

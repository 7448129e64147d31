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

    def ended(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        report(error)

    def thread_ended(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is not None:
            report(ended.exc_value)

    sys.excepthook, threading.excepthook = ended, thread_ended


def report_of_loop(_loop: object, context: dict[str, Any]) -> None:
    """Report what an event loop met outside of any caller: an exception handler of asyncio."""
    print(message(context["message"]), file=sys.stderr)
    error = context.get("exception")
    if error is not None:
        report(error)

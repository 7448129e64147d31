"""The message after a crash of the viewer: a few lines for people, with the traceback in a file."""

import traceback
from pathlib import Path

from wiretape.recorder.clock import Clock
from wiretape.recorder.sanitize import safe


def report(error: BaseException | None, clock: Clock) -> str:
    """Write the traceback to a file that only the user can read. Return five lines about it."""
    import platformdirs

    path = Path(platformdirs.user_state_path("wiretape")) / "log" / f"view-{clock.wall_ns() // 1_000_000}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)  # a traceback may quote recorded text
        path.write_text("".join(traceback.format_exception(error)) if error else "", "utf-8", "backslashreplace")
        where = f"The traceback is in {path}"
    except OSError as failure:
        where = f"The traceback could not be kept: {path}: {failure.strerror}"
    return "\n".join(
        (
            "wiretape: the viewer broke. This is a fault of wiretape, not of the tape; the tape was only read.",
            f"  {safe(type(error).__name__)}: {safe(str(error))[:200]}",
            safe(where),
            "It may quote recorded text: look it through before you hand it on.",
            "Everything else goes on: 'wiretape ls' and 'wiretape show' read the same tape.",
        )
    )

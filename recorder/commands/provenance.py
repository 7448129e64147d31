"""What a command was run as: the labels that `wiretape run` adds to its exchanges."""

import subprocess
from pathlib import Path, PurePath

_GIT_SECONDS = 1.0
_DESCRIBE = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "describe", "--always", "--dirty",
             "--exclude=*")  # fmt: skip
_CHARACTERS = 256


def labels(program: str, directory: Path) -> dict[str, str]:
    """Return `argv0`, `cwd` and `commit`: names only, of which a command's arguments are never a part.

    A name that is empty or not printable is left out, and so is the commit where there is none.
    """
    known = {"argv0": PurePath(program).name, "cwd": directory.name, "commit": _commit(directory)}
    return {key: value[:_CHARACTERS] for key, value in known.items() if value and value.isprintable()}


def _commit(directory: Path) -> str:
    """Return the short hash of the commit that is checked out, `-dirty` if a tracked file differs; "" if unknown.

    git must not run a hook of the repository, write to it or take long.
    """
    try:
        done = subprocess.run(
            _DESCRIBE, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("ascii", "replace").strip()

"""The provenance of a command: the labels that `wiretape run` adds to its exchanges."""

import os
import re
import subprocess
from pathlib import Path, PurePath

_GIT_SECONDS = 1.0
_COMMIT = ("git", "--no-pager", "-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false",
           "-c", f"core.hooksPath={os.devnull}", "rev-parse", "--verify", "--short", "HEAD")  # fmt: skip
_SETTINGS = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
_HASH = re.compile(r"[0-9a-f]{4,64}")
_CHARACTERS = 256


def labels(program: str, directory: Path) -> dict[str, str]:
    """Return `argv0`, `cwd` and `commit`: names only, never a command's arguments.

    A name that is empty or not printable is left out, and so is an unknown commit.
    """
    known = {"argv0": PurePath(program).name, "cwd": directory.name, "commit": _commit(directory)}
    return {key: value[:_CHARACTERS] for key, value in known.items() if value and value.isprintable()}


def _commit(directory: Path) -> str:
    """Return the short hash of the commit that is checked out; "" if it is unknown.

    The directory may be anybody's, and its settings can name programs for git to run: filters, hooks, transports. So
    git only resolves a name. It compares no files, fetches nothing, and takes no settings from files that merely look
    like a bare repository.
    """
    try:
        done = subprocess.run(
            _COMMIT,
            cwd=directory,
            env=os.environ | _SETTINGS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = done.stdout.decode("ascii", "replace").strip()
    return found if _HASH.fullmatch(found) else ""

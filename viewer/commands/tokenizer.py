"""Tokens of a text, counted with a tokenizer of the user's, through `tokenizers`, the extra `wiretape[tokenizers]`.

The only module that imports it. A file is what Hugging Face calls `tokenizer.json`; nothing is ever downloaded.
"""

import importlib
from pathlib import Path
from typing import Any

from recorder.errors import WiretapeError
from viewer.stats.tools.request import CountTokens


def counter(path: Path) -> CountTokens:
    """Return a function that counts tokens as the tokenizer in a file does.

    Raises `WiretapeError` where `tokenizers` is not installed, or the file is no tokenizer.
    """
    tokenizer = _tokenizer(path)

    def count(text: str, special: bool) -> int:
        # A lone surrogate, which JSON can hold, is no Unicode text.
        text = text.encode("utf-8", "replace").decode()
        return len(tokenizer.encode(text, add_special_tokens=special))

    return count


def _tokenizer(path: Path) -> Any:
    try:
        tokenizers = importlib.import_module("tokenizers")
    except ImportError as error:
        reason = "--tokenizer needs tokenizers: install it with pip install 'wiretape[tokenizers]'"
        raise WiretapeError(reason) from error
    try:
        return tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
    except OSError as error:
        raise WiretapeError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:  # the library raises nothing narrower
        raise WiretapeError(f"{path} is not a tokenizer: give a tokenizer.json of Hugging Face") from error

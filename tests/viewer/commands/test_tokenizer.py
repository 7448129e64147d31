"""Tokens counted with a tokenizer of the user's."""

import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.commands.stats import counter


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(models.WordLevel({"<s>": 0, "?": 1, "a": 2, "b": 3}, "?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tokens_are_counted_without_special_ones(file: Path) -> None:
    count = counter(file)
    assert (count("a b c"), count("")) == (3, 0)


def test_a_lone_surrogate_is_counted_and_not_an_error(file: Path) -> None:
    assert counter(file)("a \ud800") == 2


@pytest.mark.parametrize("text", ["", "{}", "\x00"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(WiretapeError, match="is not a tokenizer"):
        counter(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WiretapeError, match=r"cannot read .*: No such file"):
        counter(tmp_path / "none.json")


def test_a_missing_package_is_an_error_with_the_remedy(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(WiretapeError, match=r"\[tokenizers\]"):
        counter(file)

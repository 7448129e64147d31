"""Arrow arrays of Python values, made of their buffers. Pure.

`pyarrow.array` would load pandas, and to convert an array pyarrow's compute library: 65 MiB for nothing. Unknown is
null. A text has the escape of a lone surrogate, which UTF-8 has no bytes for.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, chain
from operator import is_not
from types import ModuleType
from typing import Any, Final

ArrowValue = Any
"""A value of pyarrow, which is optional and has no types."""

Build = Callable[[Sequence[Any]], ArrowValue]
"""Makes an array of values; None is unknown."""

_INT64: Final = "q"
_FLOAT64: Final = "d"
_INT32: Final = "i"
_is_known: Final = partial(is_not, None)
_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")


class Arrays:
    """Builders of the arrays of one pyarrow."""

    def __init__(self, arrow: ModuleType) -> None:
        self._arrow = arrow

    def integers(self, type: object) -> Build:
        """Return a builder of a type that is stored as int64."""
        return lambda values: self._numbers(type, _INT64, values)

    def floats(self) -> Build:
        """Return a builder of float64."""
        return lambda values: self._numbers(self._arrow.float64(), _FLOAT64, values)

    def booleans(self, values: Sequence[bool | int | None]) -> ArrowValue:
        """Return an array of true and false; 0 is false."""
        bits = self._bits(map(bool, values))
        return self._arrow.Array.from_buffers(self._arrow.bool_(), len(values), [self._known(values), bits])

    def texts(self, values: Sequence[str | None]) -> ArrowValue:
        """Return an array of texts; each that occurs again is encoded once."""
        encoded = {value: value.encode("utf-8", "backslashreplace") for value in {*values} if value is not None}
        return self._strings(self._arrow.string(), [None if value is None else encoded[value] for value in values])

    def blobs(self, values: Sequence[bytes | None]) -> ArrowValue:
        """Return an array of bytes."""
        return self._strings(self._arrow.binary(), values)

    def lists(self, element: object, build: Build) -> Build:
        """Return a builder of lists, whose elements `build` makes an array of."""

        def made(values: Sequence[Sequence[object] | None]) -> ArrowValue:
            lengths = [0 if value is None else len(value) for value in values]
            elements = build([*chain.from_iterable(value for value in values if value is not None)])
            return self._lists(element, values, lengths, elements)

        return made

    def packed(self, code: str) -> Build:
        """Return a builder of lists of int64 whose numbers come packed, as those of an `array` of a type."""
        element = self._arrow.int64()

        def made(values: Sequence[bytes | None]) -> ArrowValue:
            numbers = array(code, b"".join(value for value in values if value is not None))
            lengths = [0 if value is None else len(value) // numbers.itemsize for value in values]
            data = self._arrow.py_buffer(numbers if code == _INT64 else array(_INT64, numbers))
            elements = self._arrow.Array.from_buffers(element, len(numbers), [None, data])
            return self._lists(element, values, lengths, elements)

        return made

    def _numbers(self, type: object, code: str, values: Sequence[Any]) -> ArrowValue:
        data = array(code, [0 if value is None else value for value in values])
        buffers = [self._known(values), self._arrow.py_buffer(data)]
        return self._arrow.Array.from_buffers(type, len(values), buffers)

    def _strings(self, type: object, values: Sequence[bytes | None]) -> ArrowValue:
        offsets = self._offsets(0 if value is None else len(value) for value in values)
        data = self._arrow.py_buffer(b"".join(value for value in values if value is not None))
        return self._arrow.Array.from_buffers(type, len(values), [self._known(values), offsets, data])

    def _lists(self, element: object, values: Sequence[object], lengths: Sequence[int], elements: object) -> ArrowValue:
        buffers = [self._known(values), self._offsets(lengths)]
        type = self._arrow.list_(element)
        return self._arrow.Array.from_buffers(type, len(values), buffers, children=[elements])

    def _offsets(self, lengths: Iterable[int]) -> ArrowValue:
        return self._arrow.py_buffer(array(_INT32, accumulate(lengths, initial=0)))

    def _known(self, values: Sequence[object]) -> ArrowValue:
        """Return a bitmap of the values that are not None; None: all."""
        return self._bits(map(_is_known, values)) if None in values else None

    def _bits(self, values: Iterable[bool]) -> ArrowValue:
        """Return a bit for each value, that of the first one lowest."""
        digits = bytes(values)[::-1].translate(_DIGITS)
        return self._arrow.py_buffer(int(b"0" + digits, 2).to_bytes(len(digits) // 8 + 1, "little"))

"""Compressors as servers of event streams use them: with or without a flush after each event."""

import sys
import zlib
from collections.abc import Callable, Sequence
from functools import partial

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["COMPRESS", "by_brotli", "by_zlib", "by_zstd", "zstd"]

Compress = Callable[[Sequence[bytes], bool], list[bytes]]
"""Takes events, and a flag for a flush after each; returns the bytes for each, and those that end the body."""


def by_zlib(window: int, events: Sequence[bytes], flushed: bool) -> list[bytes]:
    packer = zlib.compressobj(wbits=window)
    pieces = [packer.compress(event) + (packer.flush(zlib.Z_SYNC_FLUSH) if flushed else b"") for event in events]
    return [*pieces, packer.flush()]


def by_brotli(events: Sequence[bytes], flushed: bool) -> list[bytes]:
    packer = brotli.Compressor(quality=3)
    pieces = [packer.process(event) + (packer.flush() if flushed else b"") for event in events]
    return [*pieces, packer.finish()]


def by_zstd(events: Sequence[bytes], flushed: bool) -> list[bytes]:
    packer = zstd.ZstdCompressor()
    mode = packer.FLUSH_BLOCK if flushed else packer.CONTINUE
    return [*(packer.compress(event, mode=mode) for event in events), packer.flush()]


COMPRESS: dict[str, Compress] = {
    "gzip": partial(by_zlib, 31), "deflate": partial(by_zlib, 15), "br": by_brotli, "zstd": by_zstd,
}  # fmt: skip

"""Where an archive of Parquet files is: `parquet:DIR`, or `s3://BUCKET/PREFIX`. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import click

from recorder.sanitize import clipped, safe

DIRECTORY: Final = "parquet:"
BUCKET: Final = "s3://"
FORM: Final = "parquet:DIR or s3://BUCKET/PREFIX[?region=…]"
SETTINGS: Final = {
    "region": "the region of the bucket; else AWS_REGION, or AWS_DEFAULT_REGION, or what the bucket says",
    "endpoint_override": "HOST:PORT of another service than Amazon's",
    "scheme": "http, for a service without TLS",
}
"""What may follow a bucket: ?NAME=VALUE&…"""
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Archive:
    """Where an archive is: a directory, or `BUCKET/PREFIX` of a service with `settings`. No credentials are in it."""

    url: str
    directory: Path | None = None
    prefix: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The archive in a few words, different for each."""
        return (
            f"{clipped(safe(self.url), _SHOWN)} {hashlib.sha256(self.url.encode('utf-8', 'replace')).hexdigest()[:8]}"
        )


def is_archive(url: str) -> bool:
    """Return whether this is meant for an archive."""
    return url.startswith((DIRECTORY, BUCKET))


def read(url: str) -> Archive:
    """Read where an archive is. Raises `click.BadParameter`, which never holds a credential."""
    if url.startswith(DIRECTORY):
        path = url.removeprefix(DIRECTORY)
        if not path or "\0" in path:
            raise click.BadParameter(f"an archive is {FORM}")
        directory = Path(path).expanduser().resolve()
        return Archive(f"{DIRECTORY}{directory}", directory)
    address, _, query = url.removeprefix(BUCKET).partition("?")
    bucket, _, prefix = address.rstrip("/").partition("/")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    if "@" in bucket or any("key" in name or "token" in name for name in settings):
        raise click.BadParameter("credentials in a URL are seen by others: set AWS_ACCESS_KEY_ID and the like")
    if not bucket or any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
        raise click.BadParameter(f"an archive is {FORM}")
    if not settings.keys() <= SETTINGS.keys():
        raise click.BadParameter(f"an archive in a bucket takes {', '.join(SETTINGS)}: no other settings")
    return Archive(url.rstrip("/"), None, address.rstrip("/"), settings)

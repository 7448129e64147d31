"""Where an archive of Parquet files is: `parquet:DIR`, or `s3://BUCKET/PREFIX`. Pure."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from recorder.sanitize import clipped, safe

DIRECTORY: Final = "parquet:"
BUCKET: Final = "s3://"
FORM: Final = "parquet:DIR or s3://BUCKET/PREFIX[?region=…]"
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Archive:
    """Where an archive is: a directory, or the URL of a bucket, which has no credentials."""

    directory: Path | None
    url: str

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
        return Archive(directory, f"{DIRECTORY}{directory}")
    parts = urlsplit(url)
    if "@" in parts.netloc or "secret_key" in parts.query:
        raise click.BadParameter("credentials in a URL are seen by others: set AWS_ACCESS_KEY_ID and the like")
    if not parts.netloc:
        raise click.BadParameter(f"an archive is {FORM}")
    return Archive(None, url.rstrip("/"))

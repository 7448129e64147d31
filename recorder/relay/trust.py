"""Which certificates are trusted when wiretape connects to a server."""

import ssl
from pathlib import Path

from wiretape.recorder.errors import WiretapeError


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Trust the system's store (or `SSL_CERT_FILE`), and `ca_file` besides."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise WiretapeError(f"--ca-file {ca_file} cannot be used ({error}): give certificates in PEM") from error
    return context

"""The text of the package page: the README, with links and pictures that lead from there into the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PackagePage(MetadataHookInterface):
    """A hook of the build: the page has no files beside it, and shows those of the release's tag."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        source, tag = metadata["urls"]["Source"], f"v{metadata['version']}"
        raw = source.replace("://github.com/", "://raw.githubusercontent.com/")
        text = Path(self.root, "README.md").read_text("utf-8")
        text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{raw}/{tag}/", text)
        text = re.sub(r"(\]\()(?!https?:|#)", rf"\1{source}/blob/{tag}/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

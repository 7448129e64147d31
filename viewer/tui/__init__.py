"""The terminal viewer: thin widgets over the pure models of `wiretape.viewer.model`; no SQL and no parsing in here."""

import os

# A key's effect waits for half a frame on average: for 8 ms at Textual's 60 a second.
os.environ.setdefault("TEXTUAL_FPS", "120")

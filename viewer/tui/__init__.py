"""The terminal viewer: thin widgets over pure models (`viewer.exchange`, `viewer.listing`); no SQL, no parsing."""

import os

# A key's effect waits for half a frame on average: for 8 ms at Textual's 60 a second.
os.environ.setdefault("TEXTUAL_FPS", "120")

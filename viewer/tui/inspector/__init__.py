"""The screen of one stream."""

"""The screen of all streams."""

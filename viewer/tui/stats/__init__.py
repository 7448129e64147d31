"""The screen of groups and failures."""

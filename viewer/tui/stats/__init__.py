"""The screen of groups, heat and failures."""

"""The commands that record, and what they print."""

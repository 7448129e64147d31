"""Dialects that are declared in TOML, not written in Python: read, checked and compiled once to closures."""

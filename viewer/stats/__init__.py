"""Pure: distributions, comparison, gates."""

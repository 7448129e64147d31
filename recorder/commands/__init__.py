"""The recording commands and their output."""

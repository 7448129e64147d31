"""The commands that read a tape, one module each."""

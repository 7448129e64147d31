"""The file: its schema, its one writer, and what may be stored in it."""

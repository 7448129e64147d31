"""The tape's file: its schema, its one writer, and the redaction of its contents."""

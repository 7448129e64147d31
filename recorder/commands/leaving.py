"""How a recorder asks its companions to leave the tape, so that its writer is the last to close it."""

LEAVE = b"leave\n"
"""The line that asks a companion to leave the tape; it answers with the same."""
LAST_SECONDS = 4.0
"""So long may what is left at the end take."""

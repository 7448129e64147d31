"""Pure: what the time and the context of a session were spent on."""

"""Pure: the time and the context of agents' sessions."""

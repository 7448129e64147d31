"""Pages and tables of text for people."""

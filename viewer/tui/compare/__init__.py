"""Two or more streams side by side."""

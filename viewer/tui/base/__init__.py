"""What every screen stands on: theme, keys, terminal, clipboard."""

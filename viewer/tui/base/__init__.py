"""The base of every screen: theme, keys, terminal, clipboard."""

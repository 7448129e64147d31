"""The terminal viewer: thin widgets over the pure models of `viewer`; no SQL and no parsing in here."""

"""Pure: bytes and timestamps become chunks, texts, metrics and an outcome."""

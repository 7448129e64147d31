"""A ClickHouse server as a destination: shipping to it, and its maintenance."""

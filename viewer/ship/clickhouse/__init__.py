"""A ClickHouse centre: what ships to it, and what looks after it."""

"""Sources of exchanges: a tape, or a ClickHouse server."""

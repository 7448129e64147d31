"""Where exchanges are read from: a tape, or a ClickHouse server."""

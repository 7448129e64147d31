"""ClickHouse as a source: its tables, its dialect of SQL, and what is asked of it."""

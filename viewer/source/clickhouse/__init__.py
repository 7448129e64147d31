"""ClickHouse as a source: its tables, its dialect of SQL, and its queries."""

"""Other tools' definitions of the metrics."""

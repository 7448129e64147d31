"""Metrics for dashboards, in Prometheus' text format."""

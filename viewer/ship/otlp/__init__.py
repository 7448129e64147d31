"""Spans and metrics of exchanges, sent to a collector of OpenTelemetry over OTLP/HTTP."""

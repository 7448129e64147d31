"""Rows and exchanges as files and data frames."""

"""Recordings played again: to a terminal or a pipe, and to a client over HTTP."""

"""Playhead, timeline, loading."""

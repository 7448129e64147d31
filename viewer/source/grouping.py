"""Expressions of groups and figures, for an engine that computes figures itself; see `querying`."""

from wiretape.viewer.source.tape.overview import ENDED_ANSWERS, FLAGGED, OUTCOME, group_of, sortable

__all__ = ["ENDED_ANSWERS", "FLAGGED", "OUTCOME", "group_of", "sortable"]

"""Additions to the core, a folder each: `wiretape.viewer.contracts`."""

"""The part of wiretape that writes a tape: relay, stamps, journal, store, and the pure core below."""

__version__ = "0.1.0"

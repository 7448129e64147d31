"""The part of wiretape that writes a tape: relay, stamps, journal, store, and the pure core below."""

if __name__ != "wiretape.recorder":  # a checkout's folder on the path would load every module a second time
    raise ImportError(f"{__name__} is a folder of wiretape's checkout: import wiretape.recorder")

__version__ = "0.1.0"

"""The part of wiretape that reads a tape: queries, reports, exports. It imports `recorder`, never the reverse."""

if __name__ != "wiretape.viewer":  # a checkout's folder on the path would load every module a second time
    raise ImportError(f"{__name__} is a folder of wiretape's checkout: import wiretape.viewer")

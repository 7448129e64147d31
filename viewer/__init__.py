"""The part of wiretape that reads a tape: queries, reports, exports. It imports `recorder`, never the reverse."""

"""Queries that a server cannot answer."""

from wiretape.viewer.source.base import Unsupported


class NotAtCentre(Unsupported):
    """A query needs data that the server's table `exchanges` does not have."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a centre does not look into {what}: name other fields, such as model:NAME, or copy to a tape, with "
            "'wiretape pull', what is to be searched"
        )


class UnknownExpression(Unsupported):
    """A regular expression is none that the engine knows."""

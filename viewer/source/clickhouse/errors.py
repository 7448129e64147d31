"""What a centre cannot be asked."""

from wiretape.viewer.source.base import Unsupported


class NotAtCentre(Unsupported):
    """Something was asked for that the centre's table `exchanges` does not have."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a centre does not look into {what}: name other fields, such as model:NAME, or copy to a tape, with "
            "'wiretape pull', what is to be searched"
        )


class UnknownExpression(Unsupported):
    """A regular expression is none that the engine knows."""

"""What a centre cannot be asked."""

from recorder.errors import WiretapeError


class NotAtCentre(WiretapeError):
    """Something was asked for that the centre's table `exchanges` does not have."""

    exit_code = 2

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a centre does not look into {what}: name other fields, such as model:NAME, or copy to a tape, with "
            "'wiretape pull', what is to be searched"
        )


class UnknownExpression(WiretapeError):
    """A regular expression is none that the engine knows."""

    exit_code = 2

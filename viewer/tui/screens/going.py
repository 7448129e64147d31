"""Going to where somebody wants to be: as it is typed, and again to where the last words looked for are said."""

from collections.abc import Callable

from viewer.model import goto
from viewer.model.transcript import Transcript
from viewer.playback import Playback


class Going:
    """Knows the last words that were looked for; what cannot be gone to is told to `fails`."""

    def __init__(self, fails: Callable[[str], None]) -> None:
        self._fails = fails
        self._words = ""

    def to(self, text: str, playback: Playback, transcript: Transcript) -> Callable[[Playback], None] | None:
        """Give what moves a playhead to a goal as it is typed; None if there is no such place."""
        goal = goto.read(text)
        if goal is None:
            return None
        self._words = goal.words or self._words
        place = goto.place(goal, playback, transcript)
        if place is None:
            return self._fails(f"never said: {goal.words}")
        at_ns, position = place
        return lambda moved: moved.seek_to(at_ns) if position is None else moved.seek(position)

    def again(self, playback: Playback, transcript: Transcript, *, back: bool) -> Callable[[Playback], None] | None:
        """Give what moves a playhead to where the last words are said next, or were said before; None if nowhere."""
        if not self._words:
            return self._fails("no words looked for yet: g, then words")
        position = goto.found(transcript, playback.position, self._words, back=back)
        if position is None:
            return self._fails(f"never said: {self._words}")
        return lambda moved: moved.seek(position)

"""Searches of the inspector: typed positions, and repeated searches for words."""

from tests.support.exchanges import body
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.search import Search
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.timing.playback import Playback


def test_a_kinds_first_event_is_a_position_not_words() -> None:
    transcript, failures = Transcript(body()), list[str]()
    playback, search = Playback(transcript.at, 500_000_000, lambda: 0), Search(failures.append)
    move = search.go_to("@content", playback, transcript, Times())
    assert move is not None
    move(playback)
    assert playback.position == 1
    assert search.next_match(playback, transcript, None, back=False) is None
    assert failures == ["nothing looked for yet: : and words, or / and a filter for events"]


def test_words_are_found_again_until_other_words_are_typed() -> None:
    transcript, failures = Transcript(body()), list[str]()
    playback, search = Playback(transcript.at, 500_000_000, lambda: 0), Search(failures.append)
    for typed in ("a", "@content"):
        assert search.go_to(typed, playback, transcript, Times()) is not None
        assert search.next_match(playback, transcript, None, back=False) == 1
    assert search.go_to("missing", playback, transcript, Times()) is None
    assert failures[-1].startswith("no such position: 'missing'")

"""Texts as they grow."""

from viewer.model.exchange.tracks import Track


def test_deltas_are_found_by_the_characters_that_they_added() -> None:
    track = Track()
    for at, text in ((1, "ab"), (3, "c"), (3, "d"), (7, "ef")):
        track.add(at, text)
    assert [(delta.event, delta.start, delta.end) for delta in track.deltas()] == [(1, 0, 2), (3, 2, 4), (7, 4, 6)]
    assert [delta.event for delta in track.deltas(2, 4)] == [3]
    assert [delta.event for delta in track.deltas(1, 5)] == [1, 3, 7]
    assert list(track.deltas(6)) == []
    assert (track.of(3), track.of(2), track.of(7)) == ("cd", "", "ef")


def test_many_events_add_at_once_what_each_would_add() -> None:
    one_by_one, at_once = Track(), Track()
    for event, text in ((2, "a"), (3, "bc"), (4, "d")):
        one_by_one.add(event, text)
    at_once.add(2, "a")
    at_once.extend(range(3, 5), ["bc", "d"])
    assert (at_once.text, at_once.events, at_once.ends) == (one_by_one.text, one_by_one.events, one_by_one.ends)
    assert [at_once.length(position) for position in range(6)] == [0, 0, 0, 1, 3, 4]


def test_a_character_in_two_halves_belongs_to_the_event_that_brings_the_second() -> None:
    track = Track()
    track.add(1, "a\ud83d")
    track.add(2, "\ude00b")
    assert (track.text, list(track.ends), track.of(2)) == ("a\U0001f600b", [1, 3], "\U0001f600b")

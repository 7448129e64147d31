"""Keys that wait keep their order."""

from viewer.tui.playing.loader import KeyQueue


def test_what_can_be_done_later_waits_and_all_behind_it() -> None:
    done: list[str] = []
    ready: set[bool] = set()
    waiting = KeyQueue(lambda judged: judged in ready)
    waiting.do(lambda: done.append("step"))
    waiting.do(lambda: done.append("stall"), judged=True)
    waiting.do(lambda: done.append("back"))
    assert done == []
    ready.add(False)
    waiting.catch_up()
    assert done == ["step"]
    ready.add(True)
    waiting.do(lambda: done.append("play"))
    assert done == ["step", "stall", "back", "play"]

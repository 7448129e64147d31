"""Keys that wait keep their order."""

from wiretape.viewer.tui.playing.loader import KeyQueue


def test_a_delayed_action_holds_all_behind_it() -> None:
    done: list[str] = []
    ready: set[bool] = set()
    queue = KeyQueue(lambda judged: judged in ready)
    queue.do(lambda: done.append("step"))
    queue.do(lambda: done.append("stall"), judged=True)
    queue.do(lambda: done.append("back"))
    assert done == []
    ready.add(False)
    queue.catch_up()
    assert done == ["step"]
    ready.add(True)
    queue.do(lambda: done.append("play"))
    assert done == ["step", "stall", "back", "play"]


def test_a_waiting_action_finishes_before_the_next() -> None:
    is_ready, done = False, list[int]()
    queue = KeyQueue(lambda _: is_ready)

    def go_on() -> None:
        place = len(done)
        queue.do(lambda: done.append(place))

    for _ in range(3):
        queue.do(go_on)
    assert done == []
    is_ready = True
    queue.catch_up()
    assert done == [0, 1, 2]

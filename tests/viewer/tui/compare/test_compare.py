"""The compare screen: a race on one clock, its figures, and where two texts part."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.commands import run
from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, MS, TOOLS
from tests.support.screens import SIZES, Stage, assert_golden, journey, press, resized, seen, shows, staged, wait_for
from wiretape.viewer.source import decoder
from wiretape.viewer.text import wrap
from wiretape.viewer.tui.compare.race import CompareScreen
from wiretape.viewer.tui.playing.timeline import RaceStrips

A, B, TRUNCATED, LIMITED, FAILED_NO, ODD, LIVE = range(1, 8)
_PARTS = "differ at"
RUNNING = "f00d000000000000"


async def mid_race(app: Stage, pilot: Pilot[None], ms: int = 130) -> str:
    await shows(pilot, "text diff", _PARTS)
    await press(pilot, "space")
    await shows(pilot, "racing")
    app.watch.ns = ms * MS
    await shows(pilot, f" {ms / 1000:.3f} of", "#1/#1")
    await press(pilot, "space")
    return await shows(pilot, "paused")


def test_a_race_half_way_looks_like_this(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (app, pilot):
            await mid_race(app, pilot)
            for size in ((60, 16), *SIZES, (200, 60)):
                await resized(pilot, size)
                assert_golden(f"compare-{size[0]}x{size[1]}", await shows(pilot, "#1/#1"))

    journey(steps())


def test_in_ascii_everything_is_still_told(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO), (80, 24), ascii=True) as (app, pilot):
            await mid_race(app, pilot)
            text = await shows(pilot, "12 characters", "#4/#8", "#1/#1")
            assert text.isascii()
            assert_golden("compare-ascii", text)

    journey(steps())


def test_without_colours_everything_is_still_told(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO), (80, 24)) as (app, pilot):
            assert app.no_color
            text = await mid_race(app, pilot)
            assert "40.0<" in text
            assert_golden("compare-80x24", text)

    journey(steps())


def test_both_lanes_grow_on_one_clock(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped: list[str] = []
    tail = wrap.tail

    def counted(parts: Iterable[tuple[str, str, int]], width: int, height: int) -> Any:
        texts = list(parts)
        wrapped.extend(text for _, text, _ in texts)
        return tail(texts, width, height)

    monkeypatch.setattr(wrap, "tail", counted)

    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (app, pilot):
            text = await mid_race(app, pilot, 110)
            assert "Hel▏" in text
            assert "Half an ans" in text
            wrapped.clear()
            await press(pilot, "full_stop", "full_stop")
            await shows(pilot, "Hello▏")
            assert set(wrapped) == {"Hello, world"}  # the other said nothing more: nothing of it is wrapped
            await press(pilot, "comma")
            await wait_for(pilot, lambda: "Hello" not in seen(app))
            await press(pilot, "end")
            text = await shows(pilot, "Hello, world", "#8/#8")
            assert "complete" in text

    journey(steps())


def test_aligning_swapping_speed_and_idle_are_reported(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (_, pilot):
            previous = await shows(pilot, _PARTS)
            await press(pilot, "A")
            await shows(pilot, "align: first byte")
            await press(pilot, "A", "A")
            await shows(pilot, "align: content offset")
            await press(pilot, "A", "greater_than_sign", "i", "X")
            text = await shows(pilot, "align: request sent", "2×", "idle ≤ 2 s", "─ A d0000000")
            assert _line(previous, "A   ").split()[1] == _line(text, "B   ").split()[1] == "110.0"
            await press(pilot, "less_than_sign")
            await shows(pilot, "· 1× ·")

    journey(steps())


def _line(text: str, start: str) -> str:
    return [line[1:] for line in text.splitlines() if line[1:].startswith(start)][-1]


def test_hostile_failed_and_open_exchanges_can_be_compared(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(ODD, LIMITED), (60, 16)) as (app, pilot):
            for numbers in ((ODD, LIMITED), (LIVE, ODD), (TRUNCATED, LIVE)):
                screen = CompareScreen(*numbers)
                app.push_screen(screen)
                await wait_for(pilot, lambda screen=screen: "text of A" in dict(screen.copies()))
                await press(pilot, "end", "d", "A", "X", "d")
                text = await shows(pilot, "TTFT")
                assert not any(sign in text for sign in "\x1b\x07\x9b\u202e\u2066")

    journey(steps())


def test_ids_and_commands_are_offered_before_both_are_decoded(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "LARGE", 1)

    async def steps() -> None:
        screen = CompareScreen(A, FAILED_NO)
        async with staged(tape, lambda: screen) as (_, pilot):
            offered = dict(await wait_for(pilot, screen.copies))
            assert list(offered) == ["command", "id of A", "id of B"]
            assert offered["command"].endswith(f" {offered['id of A']} {offered['id of B']}")
            assert "page of both" in dict(screen.exports())
            await wait_for(pilot, lambda: "text of B" in dict(screen.copies()))

    journey(steps())


def test_an_exchange_missing_on_the_tape_is_reported(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, 999)) as (app, pilot):
            await shows(pilot, "compare · B: this exchange is not on the tape any more")
            await press(pilot, "space", "full_stop", "A", "X", "d", "i", "end")
            await shows(pilot, "compare · B: this exchange is not on the tape any more")
            assert app.screen.copies() == []  # type: ignore[attr-defined]

    journey(steps())


def test_the_curves_are_drawn_before_any_key(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO), (120, 40)) as (_, pilot):
            text = await shows(pilot, "Hello, world", "characters")
            assert text.count("╷0") == 1

    journey(steps())


def test_everything_is_shown_before_racing_restarts_at_zero(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (_, pilot):
            await shows(
                pilot, "Hello, world", "Half an ans", "✓ complete", "! error_event", "0.181 of 0.181 s", "paused"
            )
            await press(pilot, "space")
            await shows(pilot, "0.000 of 0.181 s", "▶ racing", "no output yet")

    journey(steps())


def test_times_before_the_aligned_timestamp_are_negative(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (_, pilot):
            await shows(pilot, _PARTS)
            await press(pilot, "A", "A", "home")
            text = await shows(pilot, "align: first content", "race · −0.110 of −0.110 … 0.071 s")
            a, b, axis = text.splitlines()[-8:-5]
            assert a.index("·") == b.index("·") == axis.index("╷0")
            assert axis.split()[:4] == ["▲", "╷−100", "ms", "╷−80"]
            await press(pilot, "full_stop", "full_stop")
            await shows(pilot, "race · 0.000 of −0.110 … 0.071 s", "#1/#8", "0.000 s")
            await press(pilot, "end")
            await shows(pilot, "race · 0.071 of −0.110 … 0.071 s")

    journey(steps())


def test_ascii_times_before_alignment_have_an_ascii_minus(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO), (80, 24), ascii=True) as (_, pilot):
            await shows(pilot, _PARTS)
            await press(pilot, "A", "home")
            assert (await shows(pilot, "race . -0.100 of -0.100 ~ 0.082 s", "-50 ms")).isascii()

    journey(steps())


def test_a_running_exchange_is_followed_until_somebody_looks_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"

    async def steps() -> None:
        with recorder(path) as tape:
            tape.record(COMPLETE, COMPLETE_READS)
            tape.begin(RUNNING, COMPLETE_READS[:2], at=1)
            screen = CompareScreen(1, 2)
            async with staged(path, lambda: screen, (124, 40)) as (_, pilot):
                text = await shows(pilot, "● following", "● open", "Hel▏", "#1/#1", "0.110+ s", "same so far")
                assert _line(text, "B   ").split()[1:3] == ["110.0", "–"]
                assert "110.0+" in _line(text, "B   ")
                tape.go_on(RUNNING, COMPLETE_READS, 2, 3)
                text = await shows(pilot, "● open", "#4/#4", "0.120+ s")
                assert text.count("Hello, ") == 2
                assert "120.0+" in _line(text, "B   ")
                await press(pilot, "home", "full_stop", "full_stop")
                assert "following" not in await shows(pilot, "0.100 of", "‖ paused", "#0/#4")
                tape.go_on(RUNNING, COMPLETE_READS, 3, 5)
                text = await shows(pilot, "0.100 of", "#0/#5")
                assert "●" not in text  # it stands where it was put
                await press(pilot, "end")
                await shows(pilot, "● following", "● open", "#5/#5")
                tape.end(RUNNING, COMPLETE_READS[:5])
                await shows(pilot, "■ truncated", "171.5", "‖ paused")
                await press(pilot, "home", "end")
                assert "following" not in await shows(pilot, "0.181 of 0.181 s")

    journey(steps())


def test_a_silent_exchange_shows_its_silence_until_orphaned(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"

    async def steps() -> None:
        with recorder(path) as tape:
            tape.record(COMPLETE, COMPLETE_READS)
            tape.begin(RUNNING, COMPLETE_READS[:2])
            async with staged(path, lambda: CompareScreen(1, 2)) as (app, pilot):
                assert "silent" not in await shows(pilot, "● following", "0.181 of 0.181+ s", "● open")
                app.watch.ns = 1_500 * MS
                text = await shows(pilot, "● open  silent for 1.4 s", "1.500 of 1.500+ s", "╷1 s")
                assert "1,500.0+" in _line(text, "B   ")
                assert "+1,320.0" in _line(text, "B − A")
                await press(pilot, "home")
                assert "silent" not in await shows(pilot, "0.000 of 1.500+ s")
                await press(pilot, "end")
                await shows(pilot, "● following")
                app.watch.ns = 60_000 * MS
                text = await shows(pilot, "? orphan", "‖ paused", "0.181 of 0.181 s")
                assert "silent" not in text
                assert ("orphan" in _line(text, "B   "), "110.0+" in text) == (True, False)

    journey(steps())


def test_what_is_racing_when_more_comes_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"

    async def steps() -> None:
        with recorder(path) as tape:
            tape.record(COMPLETE, COMPLETE_READS)
            tape.begin(RUNNING, COMPLETE_READS[:2], at=1)
            async with staged(path, lambda: CompareScreen(1, 2)) as (app, pilot):
                await shows(pilot, "● open", "181 of 0.181+ s")
                await press(pilot, "home", "space")
                await shows(pilot, "racing")
                app.watch.ns = 115 * MS
                await shows(pilot, " 0.115 of", "Hel▏")
                tape.go_on(RUNNING, COMPLETE_READS, 2, 4)
                await shows(pilot, "#1/#4", "racing", " 0.115 of")
                await resized(pilot, (80, 24))
                app.watch.ns = 121 * MS
                await shows(pilot, "#4/#4", "racing", "0.121 of")

    journey(steps())


def test_another_tape_in_its_place_has_other_exchanges(tmp_path: Path) -> None:
    path, second_tape = tmp_path / "tape.db", tmp_path / "other.db"

    async def steps() -> None:
        with recorder(second_tape) as later:
            for number in range(2):
                later.record(f"c{number:015}", COMPLETE_READS)
        with recorder(path) as tape:
            tape.record(COMPLETE, COMPLETE_READS)
            tape.begin(RUNNING, COMPLETE_READS[:2], at=1)
            async with staged(path, lambda: CompareScreen(1, 2)) as (_, pilot):
                await shows(pilot, "● open")
                for ending in ("-wal", "-shm", ""):
                    path.with_name(f"tape.db{ending}").unlink()
                second_tape.rename(path)
                await shows(pilot, "compare · B: this exchange is not on the tape any more", "Hel▏")

    journey(steps())


def test_an_unstreamed_answer_comes_with_its_last_byte(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    message = {"index": 0, "message": {"role": "assistant", "content": "All at once."}, "finish_reason": "stop"}
    body = json.dumps({"object": "chat.completion", "choices": [message]}).encode()

    async def steps() -> None:
        with recorder(path) as tape:
            tape.record(COMPLETE, COMPLETE_READS)
            tape.answer(RUNNING, body, 500, at=1)
            async with staged(path, lambda: CompareScreen(1, 2)) as (_, pilot):
                await shows(pilot, "All at once.")
                await press(pilot, "home")
                assert "All at once." not in await shows(pilot, "no output yet  #–/#0")
                await press(pilot, "end")
                text = await shows(pilot, "All at once.", "✓ complete  T –  #0/#0")
                assert "0.000 s" not in text

    journey(steps())


def test_a_tape_that_is_not_there_is_reported(tape: Path) -> None:
    async def steps() -> None:
        missing = tape.parent / "nothing.db"
        async with staged(missing, lambda: CompareScreen(A, B)) as (app, pilot):
            await wait_for(pilot, lambda: "nothing.db" in seen(app))
            assert app.screen.copies() == []  # type: ignore[attr-defined]

    journey(steps())


def test_differing_texts_are_toggled_and_equal_ones_reported(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, FAILED_NO)) as (app, pilot):
            await shows(pilot, _PARTS)
            await press(pilot, "d")
            text = await shows(pilot, "the same up to character 1 (line 1, column 2)")
            assert "H▶ello, world" in text
            assert "H▶alf an ans" in text
            await press(pilot, "d")
            await wait_for(pilot, lambda: "▶" not in seen(app))
            screen = CompareScreen(A, A)
            app.push_screen(screen)
            await wait_for(pilot, lambda: "text of A" in dict(screen.copies()))
            await press(pilot, "d")
            await wait_for(pilot, lambda: app.toasts == ["both texts are the same"])

    journey(steps())


def test_the_mouse_sends_both_to_where_it_points(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, B)) as (_, pilot):
            await shows(pilot, "3.071 of 3.071 s")
            await pilot.click(RaceStrips, offset=(3, 1))
            await shows(pilot, "race · 0.026 of")
            await pilot.click(RaceStrips, offset=(119, 2))
            await shows(pilot, "race · 3.071 of")

    journey(steps())


def test_nothing_is_missed_while_it_is_suspended(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, B)) as (app, pilot):
            await shows(pilot, "‖ paused")
            await press(pilot, "home", "space")
            await shows(pilot, "▶ racing")
            app.watch.ns += 100_000_000
            await shows(pilot, "▶ racing", "race · 0.100 of")
            app.app_suspend_signal.publish(app)
            app.watch.ns += 60_000_000_000
            app.app_resume_signal.publish(app)
            await shows(pilot, "‖ paused", "race · 0.100 of")

    journey(steps())


def test_the_figures_match_the_copied_command(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, B)) as (app, pilot):
            text = await shows(pilot, "differ at 1")
            screen = app.screen
            assert isinstance(screen, CompareScreen)
            copies = dict(screen.copies())
            assert copies["command"] == f"wiretape compare --db {tape} {COMPLETE} {TOOLS}"
            printed = json.loads(run(tape, *copies["command"].split()[1:], "--format", "json").output)
            rows = {row["metric"]: row for row in printed}
            for name in ("ttft_ms", "duration_ms"):
                assert f"{rows[name]['a']:,.1f}" in _line(text, "A   ")
                assert f"{rows[name]['b']:,.1f}" in _line(text, "B   ")
            assert copies["text of A"] == "Hello, world"
            exported = ["export", "--db", str(tape), COMPLETE, TOOLS]
            assert exported in [arguments for _, arguments in screen.exports()]

    journey(steps())


def test_where_there_is_no_text_it_is_said_why(tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, lambda: CompareScreen(A, LIMITED), (80, 24)) as (_, pilot):
            text = await shows(pilot, "no text: http_error", "only A")
            assert "none" in _line(text, "B   ")
            await press(pilot, "d")
            await shows(pilot, "only A has any text")
            await press(pilot, "home")
            assert "no text:" not in await shows(pilot, "no output yet")

    journey(steps())

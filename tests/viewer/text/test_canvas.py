"""Drawing of changes: the terminal shows the same as after drawing everything."""

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from wiretape.viewer.text.canvas import Canvas

COLUMNS, ROWS = 12, 8
LOOKS = [
    "",
    "1",
    "2;31",
    "38;2;1;2;3;48;2;9;9;9",
    "38;2;1;2;4;48;2;9;9;9",
    "31;41",
    "48;5;7",
    "7;31",
    "1;31;41",
    "1;2;4",
]
SIGNS = st.text(alphabet="ab ü█語e\u0301", min_size=1, max_size=8).filter(cell_len)
PARTS = st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1), SIGNS, st.sampled_from(LOOKS))
FRAMES = st.lists(st.lists(PARTS, min_size=1, max_size=6), min_size=1, max_size=4)
COLOUR = re.compile(r"[34]8;2;\d+;\d+;\d+|[34]8;5;\d+|\d+")


def of_blank(look: frozenset[str]) -> frozenset[str]:
    """Return the visible part of a look in an empty cell: its ground and lines, unless colours are swapped."""
    return look if "7" in look else frozenset(part for part in look if part[0] == "4")


def turned(look: dict[str, str], body: str) -> dict[str, str]:
    """Return a look after a sequence of SGR."""
    for part in COLOUR.findall(body or "0"):
        if part == "0":
            look = {}
        elif part == "22":
            look = {kind: value for kind, value in look.items() if kind not in ("1", "2")}
        else:
            look = look | {part[0] if len(part) > 1 else part: part}
    return look


class Glass:
    """A terminal as a grid of cells, each with its sign and its look."""

    def __init__(self) -> None:
        self.cells = [[(" ", frozenset[str]())] * COLUMNS for _ in range(ROWS)]
        self.y = self.x = 0
        self.end = ROWS

    def feed(self, data: str) -> None:
        look: dict[str, str] = {}
        for body, final, sign in re.findall(r"\x1b\[([\d;?]*)([HGmhlrLM])|(.)", data):
            if final == "m":
                look = turned(look, body)
            elif final in ("H", "r") and body:
                self.y, second = (int(place) - 1 for place in body.split(";"))
                self.x, self.end = (second, self.end) if final == "H" else (0, second + 1)
            elif final == "r":
                self.end = ROWS
            elif final in ("L", "M"):
                self.scroll(int(body), is_down=final == "L")
            elif final == "G":
                self.x = int(body) - 1
            elif sign:
                self.put(sign, frozenset(look.values()))

    def scroll(self, lines: int, *, is_down: bool) -> None:
        blank = [[(" ", frozenset[str]())] * COLUMNS for _ in range(lines)]
        moved = self.cells[self.y : self.end]
        self.cells[self.y : self.end] = blank + moved[:-lines] if is_down else moved[lines:] + blank

    def put(self, sign: str, look: frozenset[str]) -> None:
        row, size = self.cells[self.y], cell_len(sign)
        if not size:
            head = next(place for place in range(self.x - 1, -1, -1) if row[place][0])
            row[head] = row[head][0] + sign, row[head][1]
            return
        from_x, behind = self.x, self.x + size
        while from_x and not row[from_x][0]:
            from_x -= 1
            row[from_x] = " ", of_blank(row[from_x][1])
        while behind < COLUMNS and not row[behind][0]:
            row[behind] = " ", of_blank(row[behind][1])
            behind += 1
        look = of_blank(look) if sign == " " else look
        row[self.x : self.x + size] = [(sign, look), *[("", look)] * (size - 1)]
        self.x += size


def text_of(parts: list[tuple[int, int, str, str]]) -> str:
    """Return a frame as Textual writes it: each part from its place on, its look set and taken back."""
    strings = []
    for y, x, text, look in parts:
        while cell_len(text) > COLUMNS - x or (text and not cell_len(text[0])):
            text = text[1:]
        if text:
            strings.append(f"\x1b[{y + 1};{x + 1}H" + (f"\x1b[{look}m{text}\x1b[0m" if look else text))
    return "".join(strings)


@given(FRAMES, st.integers(0, 3))
def test_the_terminal_shows_the_whole_after_partial_drawing(
    frames: list[list[tuple[int, int, str, str]]], left_out: int
) -> None:
    spared, full_text, canvas = Glass(), Glass(), Canvas()
    canvas.resize(COLUMNS, ROWS)
    blank = text_of([(y, 0, " " * COLUMNS, "") for y in range(ROWS)])
    for number, frame in enumerate([blank, *map(text_of, frames)]):
        full_text.feed(frame)
        assert canvas.take(frame) == ""
        if number != left_out or number == len(frames):
            spared.feed(canvas.changes())
    assert spared.cells == full_text.cells
    assert canvas.changes() == ""


LINES = [f"{number:02d} line {number:02d}€" for number in range(40)]
POSITIONS = st.tuples(st.integers(0, len(LINES) - 6), st.integers(0, 5), st.booleans())


def list_text(top: int, cursor: int, is_long: bool) -> str:
    """Return the frame of a list between a title and a footer, with a cursor and a scrollbar."""
    rows = [(y + 1, 0, LINES[top + y], "7;31" if y == cursor else "") for y in range(6)]
    bar = [(y + 1, COLUMNS - 1, "█" if y == top % 6 else " ", "") for y in range(6)]
    return text_of([*rows, *bar, (ROWS - 1, 0, f"{'long' if is_long else 'short'} {top}", "1")])


@given(st.lists(POSITIONS, min_size=2, max_size=6))
def test_the_terminal_shows_the_same_after_scrolling(positions: list[tuple[int, int, bool]]) -> None:
    spared, full_text, canvas = Glass(), Glass(), Canvas()
    canvas.resize(COLUMNS, ROWS)
    steps = [
        (top + by, *remainder)
        for top, *remainder in positions
        for by in (0, 1, -1, 3)
        if 0 <= top + by <= len(LINES) - 6
    ]
    blank = text_of([(y, 0, " " * COLUMNS, "") for y in range(ROWS)])
    for frame in (blank, *(list_text(*step) for step in steps)):
        full_text.feed(frame)
        canvas.take(frame)
        spared.feed(canvas.changes())
    assert spared.cells == full_text.cells


def test_rows_that_scroll_are_moved_instead_of_drawn() -> None:
    lines = ["abcdefgh"[number % 8] * 60 for number in range(11)]

    def frame(top: int) -> str:
        return "".join(f"\x1b[{y + 1};1H{lines[top + y]}" for y in range(10))

    assert of(frame(0), frame(1), rows=12) == f"\x1b[1;10r\x1b[1;1H\x1b[1M\x1b[r\x1b[10;1H{lines[10]}\x1b[10;61H"
    assert of(frame(1), frame(0), rows=12) == f"\x1b[1;10r\x1b[1;1H\x1b[1L\x1b[r\x1b[1;1H{lines[0]}\x1b[10;61H"


def of(*frames: str, rows: int = 2) -> str:
    """Return the bytes written for the last of some frames."""
    canvas = Canvas()
    canvas.resize(60, rows)
    for frame in frames:
        changes = canvas.changes()
        canvas.take(frame)
        changes = canvas.changes()
    return changes


def test_only_cells_near_a_change_are_drawn() -> None:
    line_text = "\x1b[1;1H" + "x" * 60
    second = "\x1b[1;1H" + "x" * 20 + "y" + "x" * 2 + "z" + "x" * 30 + "y" + "x" * 5
    assert of(line_text, second) == "\x1b[1;21Hyxxz\x1b[55Gy\x1b[1;61H"


def test_of_a_look_only_what_is_new_is_set() -> None:
    red, blue = "38;2;9;0;0;48;2;1;1;1", "38;2;0;0;9;48;2;1;1;1"
    assert of(f"\x1b[1;1H\x1b[{red}ma\x1b[0m\x1b[{blue}mb\x1b[0m\x1b[1mc\x1b[0m\x1b[1;1H") == (
        f"\x1b[1;1H\x1b[{red}ma\x1b[38;2;0;0;9mb\x1b[0;1mc\x1b[0m\x1b[1;1H"
    )


def test_a_blank_keeps_the_pen_if_invisible() -> None:
    assert (
        of("\x1b[1;1H\x1b[1;31;44ma\x1b[0m\x1b[44m b\x1b[0m") == "\x1b[1;1H\x1b[1;31;44ma \x1b[0;44mb\x1b[0m\x1b[1;4H"
    )
    first, second = "\x1b[1;1H\x1b[1;31m \x1b[0m", "\x1b[1;1H\x1b[32m \x1b[0m"
    assert of(first, second) == ""


def test_bold_alone_is_taken_back_by_its_own_code() -> None:
    assert of("\x1b[1;1H\x1b[1;31ma\x1b[0m\x1b[31mb\x1b[0m") == "\x1b[1;1H\x1b[1;31ma\x1b[22mb\x1b[0m\x1b[1;3H"


def test_a_frame_of_every_cell_is_drawn_whole() -> None:
    full_text = "\x1b[1;1H" + "x" * 60 + "\n\x1b[2;1H" + "x" * 60
    assert of(full_text, full_text).count("x") == 120
    assert of(full_text, full_text[:-1]) == "\x1b[2;60H"


def test_control_sequences_pass_and_frames_stay_synchronized() -> None:
    canvas = Canvas()
    canvas.resize(9, 1)
    other_sequences = "\x1b]52;c;eA==\x07\x1b[?1049h\x1b[>1u\x1b[8l\x07"
    assert canvas.take(f"\x1b[?2026h\x1b[1;1Hx\x1b[?2026l{other_sequences}") == other_sequences
    assert canvas.changes() == "\x1b[?2026h\x1b[1;1Hx\x1b[1;2H\x1b[?2026l"


def test_joined_signs_are_not_taken_apart() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    output = of("\x1b[1;1H" + " " * 60, f"\x1b[1;1H{family}", f"\x1b[1;1H{family}x")
    assert output == f"\x1b[1;1H{family}x\x1b[1;4H"


def test_after_another_size_nothing_is_known() -> None:
    canvas = Canvas()
    for columns in (5, 6):
        canvas.resize(columns, 1)
        canvas.take("\x1b[1;1Hx")
        assert canvas.changes() == "\x1b[1;1Hx\x1b[1;2H"
        canvas.resize(columns, 1)
        assert not canvas.is_behind

"""The keys of the inspector: the transport's are those of asciinema's player, the rest as everywhere."""

from typing import Final

from textual.binding import Binding, BindingType

from viewer.tui.base.keys import BACK, HELP


def _key(
    keys: str, action: str, meaning: str, id: str, display: str | None = None, *, show: bool = False, told: str = ""
) -> Binding:
    """Make a binding; where its meaning is short for the footer's sake, `told` is what help says."""
    return Binding(keys, action, meaning, show=show, key_display=display, tooltip=told, id=f"replay.{id}")


KEYS: Final[list[BindingType]] = [
    *HELP,
    _key("space", "play", "play", "play", "space", show=True, told="play or pause"),
    _key("full_stop", "step(1)", "step", "step_forward", ". ,", show=True),
    _key("comma", "step(-1)", "step back", "step_back", ","),
    _key("left_curly_bracket", "mark('S', -1)", "stall before", "stall_before", "{"),
    _key("right_curly_bracket", "mark('S', 1)", "stall", "stall_after", "}", show=True),
    _key("g", "goto", "go to", "goto", show=True),
    _key("slash", "filter", "filter", "filter", "/", show=True),
    _key("less_than_sign", "faster(-1)", "play slower (speed)", "slower", "<"),
    _key("greater_than_sign", "faster(1)", "faster", "faster", ">", show=True, told="play faster (speed)"),
    _key("equals_sign", "faster(0)", "normal speed", "normal_speed", "="),
    _key("left", "seek(-1)", "a second back", "second_back", "←"),
    _key("right", "seek(1)", "a second on", "second_on", "→"),
    _key("H,shift+left", "jump(-10)", "a tenth back", "tenth_back", "H"),
    _key("L,shift+right", "jump(10)", "a tenth on", "tenth_on", "L"),
    _key("home", "end(0)", "to the start", "start"),
    _key("end,G", "end(1)", "to the end", "end"),
    _key("left_square_bracket", "mark('', -1)", "marker before", "marker_before", "["),
    _key("right_square_bracket", "mark('', 1)", "next marker", "marker_after", "]"),
    _key("e", "mark('E', 1)", "next error", "error_after"),
    _key("E", "mark('E', -1)", "error before", "error_before"),
    _key("t", "first", "first content, then first reasoning", "first"),
    _key("i", "idle", "cut silences short", "idle"),
    _key("f", "follow", "follow the end of a live stream", "follow"),
    _key("n", "again(1)", "next match: words of g, or events of /", "words_after"),
    _key("N", "again(-1)", "match before", "words_before"),
    _key("m", "bookmark", "set a bookmark, or take it away", "bookmark"),
    _key("apostrophe", "next_bookmark", "next bookmark", "next_bookmark", "'"),
    BACK,
]
"""Those that move the playhead; each has an id, so that it can be changed in the configuration."""

PANE_KEYS: Final[list[BindingType]] = [
    _key("r", "fold", "fold the reasoning", "fold"),
    _key("a", "ghost", "show what comes later", "ghost"),
    _key("b", "annotate", "show the time between words", "annotate"),
    _key("c", "choice", "one choice after the other, or all", "choice"),
    _key("M", "markdown", "content as Markdown, or plain", "markdown"),
    _key("v", "view", "hex, lines, JSON or wire", "view"),
    _key("plus", "zoom(True)", "zoom", "zoom", "+"),
    _key("underscore", "zoom(False)", "zoom out", "zoom_out", "_"),
    _key("enter", "open", "open the event, or write a note", "open"),
    _key("tab", "focus_pane(1)", "next pane", "next_pane"),
    _key("shift+tab", "focus_pane(-1)", "pane before", "pane_before"),
    _key("up,k", "move(-1)", "up", "up"),
    _key("down,j", "move(1)", "down", "down"),
    _key("pageup,ctrl+b", "page(-1)", "a page up", "page_up"),
    _key("pagedown,ctrl+f", "page(1)", "a page down", "page_down"),
    _key("ctrl+u", "page(-0.5)", "half a page up", "half_page_up"),
    _key("ctrl+d", "page(0.5)", "half a page down", "half_page_down"),
    *(
        _key(str(number), f"pane({number - 1})", name, name)
        for number, name in enumerate(("replay", "events", "raw", "request", "timing", "notes"), 1)
    ),
]
"""Those that are about what is shown."""

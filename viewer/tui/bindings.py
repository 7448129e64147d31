"""The table of the keys of all screens: a key has one meaning on each of them.

Every screen takes its bindings from here; help and its topic are made of the table, and `[keys]` in the configuration
sets keys by the names of its actions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from textual.binding import Binding, BindingType

Group = Literal["on this screen", "playing", "the playhead", "everywhere", "moving about"]
GROUPS: Final[tuple[str, ...]] = ("on this screen", "playing", "the playhead", "everywhere", "moving about")
"""The headings of actions in help, in their order."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action: its name, its keys, its meaning, the method that it calls, and its word in the last line, if any.

    Without a method it is that of its name. `key_display` stands for the keys in the last line.
    """

    name: str
    keys: str
    meaning: str
    group: Group = "on this screen"
    word: str = ""
    call: str = ""
    key_display: str | None = None

    def on(self, meaning: str, word: str | None = None) -> "Action":
        """Return the action with its meaning on one screen, and perhaps another word."""
        return replace(self, meaning=meaning, word=self.word if word is None else word)

    @property
    def binding(self) -> Binding:
        """The binding; those of terminals are the system's, which help does not list."""
        return Binding(
            self.keys,
            self.call or self.name,
            self.word or self.meaning,
            show=bool(self.word),
            key_display=self.key_display,
            priority=self.name == "interrupt",
            tooltip=self.meaning,
            id=self.name,
            system=self.name in ("suspend", "interrupt"),
            group=Binding.Group(self.group),
        )


def of(*actions: Action) -> list[BindingType]:
    return [action.binding for action in actions]


HELP: Final = Action(
    "help", "question_mark,f1", "search the actions of this screen, and run one", "everywhere", "help", "app.help"
)
BACK: Final = Action("back", "escape", "undo one step, then back", "everywhere", call="app.back")
LEAVE: Final = Action("leave", "q", "back a screen; from the first, quit", "everywhere", "back", "app.leave")

_OPEN: Final = Action("open", "enter", "open the item under the cursor", word="open", key_display="enter")
_FILTER: Final = Action("filter", "slash", "type a filter (search, find)", word="filter")
_VIEWS: Final = Action("views", "apostrophe", "saved views")
_ORDER: Final = Action("order", "o", "order by a column (sort)", word="order")
_REVERSE: Final = Action("reverse", "O", "reverse the order (sort)")
_RELOAD: Final = Action("reload", "R", "read again, in order (refresh)")
_TREES: Final = Action("trees", "t", "conversations, as trees with totals (agents, sessions)", word="conversations")
_VIEW: Final = Action("view", "v", "the next view of it")
_ZOOM: Final = Action("zoom", "z", "each timeline on its own scale, or all on one (zoom)")
_GROUP: Final = Action("group", "b", "group by the next field", word="group")
_ALL: Final = Action("all", "a", "all, or one after the other")
_PLAY: Final = Action("play", "space", "play or pause", "playing", "play", key_display="space")
_PLAY_STALL: Final = Action("play_stall", "p", "play the stall: from 3 s before it to 1 s after", "playing")
_ERRORS: Final = Action("errors", "e", "errors only, or all again", word="errors")
_TIMES: Final = Action("times", "T", "times in the next format")
_UP: Final = Action("up", "up,k", "up", "moving about", call="move(-1)")
_DOWN: Final = Action("down", "down,j", "down", "moving about", call="move(1)")
_PAGE_UP: Final = Action("page_up", "pageup,ctrl+b,ctrl+u", "a page up", "moving about", call="page(-1)")
_PAGE_DOWN: Final = Action("page_down", "pagedown,ctrl+f,ctrl+d", "a page down", "moving about", call="page(1)")
_LEFT: Final = Action("left", "left,h", "left", "moving about", call="aside(-1)")
_RIGHT: Final = Action("right", "right,l", "right", "moving about", call="aside(1)")
_FIRST: Final = Action("first", "home,g", "to the first", "moving about", call="top")
_LAST: Final = Action("last", "end,G", "to the last", "moving about", call="bottom")
_NEXT: Final = Action("next", "tab", "the next part of the screen", "moving about", call="part(1)")
_PREVIOUS: Final = Action("previous", "shift+tab", "the part before", "moving about", call="part(-1)")

APPLICATION: Final = (
    HELP,
    Action("copy", "y", "copy, or hand to your pager or editor (yank)", "everywhere", call="copy_menu"),
    Action("export", "x", "export to a file (save, screenshot)", "everywhere", call="export_menu"),
    Action("browse", "w", "page in the browser (web, HTML)", "everywhere"),
    Action("theme", "f5", "dark or light theme (colours)", "everywhere", call="next_theme"),
    BACK,
    replace(LEAVE, word="quit"),
)
"""Actions of every screen."""

TERMINAL: Final = (
    Action("suspend", "ctrl+z", "suspend, as any program", "everywhere", call="suspend_process"),
    Action("interrupt", "ctrl+c", "copy the selected text, or quit at once", "everywhere"),
)
"""Actions of keys that mean the same in any program: help does not list them."""

CURSOR: Final = (_UP, _DOWN, _PAGE_UP, _PAGE_DOWN, _FIRST, _LAST)
"""Moves of the cursor of a list or a table."""

ASIDE: Final = (_LEFT, _RIGHT)
"""Further moves of the cursor of a grid."""

LIST: Final = (
    HELP,
    _FILTER,
    _OPEN.on("open in the inspector (replay)"),
    replace(_ERRORS, call="only('is:failed')"),
    Action("stalls", "s", "stalls only, or all again", word="stalls", call="only('flag:stall')"),
    Action("mark", "m", "mark to compare, or take the mark away (select)", word="mark"),
    Action("compare", "c", "compare the marked ones (race)", word="compare"),
    _VIEW.on("lanes on the wall clock (overlap, at once)", "lanes"),
    _ORDER,
    Action("stats", "S", "stats of the list (figures)", word="stats"),
    _TREES,
    _PLAY.on("open it, and play it from the start", ""),
    _PLAY_STALL,
    Action("follow", "f", "follow the newest"),
    Action("toggle_filter", "backslash", "filter on or off"),
    _VIEWS,
    _REVERSE,
    _ZOOM,
    Action("preview", "P", "preview, shown or not"),
    _RELOAD,
    Action("columns", "C", "columns, to show or to hide"),
    _TIMES,
)
LANES: Final = (
    HELP,
    _OPEN.on("open in the inspector (replay)"),
    Action(
        "closer",
        "plus,equals_sign",
        "half of the time around the cursor (zoom)",
        word="zoom",
        call="scale(True)",
        key_display="+ -",
    ),
    Action("wider", "minus", "twice the time (zoom out)", call="scale(False)"),
    _GROUP.on("lanes by the next label, or by model", "by label"),
    Action("later", "L,shift+right", "half a screen later", word="pan", call="pan(1)", key_display="H L"),
    Action("earlier", "H,shift+left", "half a screen earlier", call="pan(-1)"),
    LEAVE,
)  # fmt: skip
CONVERSATIONS: Final = (
    HELP,
    _OPEN.on("open or close a conversation, or an exchange"),
    _RIGHT.on("open the conversation"),
    _LEFT.on("close the conversation"),
    _ALL.on("open all conversations, or close them", "all"),
    _VIEW.on("bars of the time, or of the content of the requests", "time/context"),
    _TREES.on("list the exchanges of the conversation", "list"),
    _RELOAD,
    LEAVE,
)
STATS: Final = (
    HELP,
    _OPEN.on("list the exchanges of the item under the cursor", "drill down"),
    _GROUP,
    _ZOOM.on("a shorter window of time, or all of it", "window"),
    _FILTER,
    _VIEWS,
    _RELOAD,
    _NEXT,
    _PREVIOUS,
    LEAVE,
)
TABLE: Final = (
    HELP,
    _OPEN.on("open in the inspector (replay)"),
    _ORDER.on("order by the next figure, the best first (sort)"),
    _REVERSE.on("reverse the order (sort)", "reverse"),
    LEAVE,
)

_STEP: Final = (
    Action("step", "full_stop", "the next event", "the playhead", "step", "step(1)", ". ,"),
    Action("step_back", "comma", "the event before", "the playhead", call="step(-1)"),
)
_PLAYHEAD: Final = (
    _RIGHT.on("on: a second, of a long stream a hundredth"),
    _LEFT.on("back: a second, of a long stream a hundredth"),
    _FIRST.on("to the start"),
    _LAST.on("to the end; a stream that runs is followed"),
    Action("slower", "less_than_sign", "play slower (speed)", "playing", call="faster(-1)"),
)
_FASTER: Final = Action("faster", "greater_than_sign", "play faster (speed)", "playing", "faster", "faster(1)")
_IDLE: Final = Action("idle", "i", "cut silences short, or not", "playing")

INSPECTOR: Final = (
    HELP,
    _PLAY,
    *_STEP,
    Action("stall", "right_curly_bracket", "beginning of the next stall", "the playhead", "stall", "stall(1)"),
    Action("stall_before", "left_curly_bracket", "beginning of the stall before", "the playhead", call="stall(-1)"),
    _PLAY_STALL,
    Action("goto", "colon", "go to a time, an event, a kind, or words (search)", "the playhead", "go to"),
    _FILTER.on("filter the events, or search a request (find)"),
    _FASTER,
    *_PLAYHEAD,
    _ERRORS.on("next error", ""),
    _IDLE,
    Action("match", "n", "next match: words of :, or events of /", "the playhead", call="again(1)"),
    Action("match_before", "N", "match before", "the playhead", call="again(-1)"),
    _TIMES,
    LEAVE,
)
PANES: Final = (
    Action("fold", "r", "fold the reasoning, or unfold a request"),
    _ALL.on("one choice after the other, or all"),
    _VIEW.on("the next view: gaps, Markdown; hex, lines, JSON, wire; a request as sent"),
    _ZOOM.on("one pane only, or all of the tab"),
    _OPEN.on("take the event apart", ""),
    _NEXT.on("next pane"),
    _PREVIOUS.on("pane before"),
    _UP,
    _DOWN,
    _PAGE_UP,
    _PAGE_DOWN,
    Action("replay", "1", "replay", call="pane(0)"),
    Action("events", "2", "events", call="pane(1)"),
    Action("raw", "3", "raw: an event and its bytes", call="pane(2)"),
    Action("request", "4", "request", call="pane(3)"),
    Action("timing", "5", "timing", call="pane(4)"),
)
RACE: Final = (
    HELP,
    _PLAY.on("race or pause", "race"),
    _STEP[0].on("the next event of both", "step both"),
    _STEP[1].on("the event of both before"),
    replace(_FASTER, word=""),
    *_PLAYHEAD,
    _IDLE.on("cut short the silences of both", "idle"),
    Action("align", "A", "align by request, first byte, content or offset", word="align"),
    Action("swap", "X", "swap A and B", word="swap"),
    Action("text", "d", "where the texts part", word="text diff"),
    LEAVE,
)

SCREENS: Final[dict[str, tuple[Action, ...]]] = {
    "list": (*LIST, *CURSOR), "lanes": (*LANES, *CURSOR, *ASIDE), "conversations": (*CONVERSATIONS, *CURSOR),
    "stats": (*STATS, *CURSOR, *ASIDE), "inspector": (*INSPECTOR, *PANES), "race": RACE, "table": (*TABLE, *CURSOR),
}  # fmt: skip
"""The actions of each screen, without those of the application."""

DIALOG: Final = (replace(BACK, meaning="close", word="close", call="cancel"),)
MENU: Final = (*DIALOG, replace(LEAVE, meaning="close", call="cancel"), _UP, _DOWN, _PAGE_UP, _PAGE_DOWN)
"""A menu; if it has a line to type in, that takes all letters."""

FILTER_LINE: Final = (
    Action("complete", "tab", "take the chosen completion, or the first", word="complete"),
    Action("choose", "down", "next completion, or filter", word="choose", call="choose(1)"),
    Action("recall", "up", "choose up, or the filter before", word="earlier", call="choose(-1)"),
    Action("submit", "enter", "take the chosen completion, or apply", word="apply", key_display="enter"),
    replace(BACK, meaning="leave the filter as it was", word="cancel", call="abandon"),
)
"""The line in which a filter is typed."""


def by_name() -> dict[str, Action]:
    of_screens: Iterable[Action] = (action for actions in SCREENS.values() for action in actions)
    return {action.name: action for action in (*of_screens, *FILTER_LINE, *APPLICATION, *TERMINAL)}

"""The keys of the list and where its parts stand: what of `streams` is no code.

A binding's id is what the configuration calls it by. The keys that move the cursor are the list's own widget's.
"""

from typing import Final

from textual.binding import Binding

from viewer.tui.base.keys import HELP

CSS: Final = """
    StreamsScreen {
        & #body { height: 1fr; layout: vertical; }
        & #list { width: 1fr; height: 1fr; }
        & #nothing { display: none; width: 1fr; height: 1fr; align: center middle; }
        & Preview { height: 30%; min-height: 7; max-height: 14; }
        &.-nothing #body { display: none; }
        &.-nothing #nothing { display: block; }
        &.-unpreviewed Preview { display: none; }
        &.-short Preview, &.-short.-filtering Preview, &.-tall.-filtering Preview { display: none; }
        &.-short Completions { height: 4; }
        &.-high Completions { height: 9; }
        &.-wide #body { layout: horizontal; }
        &.-wide Preview { width: 36%; height: 1fr; max-height: 100%; border-top: none; border-left: solid $panel; }
    }
    """
"""Below 20 rows the preview gives way, below 36 while a filter is typed; from 150 columns on it stands at the right."""

KEYS: Final = (
    *HELP,
    Binding("slash", "filter", "filter", key_display="/", tooltip="type a filter (search, find)", id="streams.filter"),
    Binding("enter", "open", "open", key_display="enter", tooltip="open in the inspector (replay)", id="streams.open"),
    Binding("e", "only('is:failed')", "errors", tooltip="errors only, or all again", id="streams.errors"),
    Binding("s", "only('flag:stall')", "stalls", tooltip="stalls only, or all again", id="streams.stalls"),
    Binding("space", "mark", "mark", tooltip="mark to compare, or take the mark away (select)", id="streams.mark"),
    Binding("c", "compare", "compare", tooltip="compare what is marked (race)", id="streams.compare"),
    Binding("o", "order", "order", tooltip="order by a column (sort)", id="streams.order"),
    Binding("f", "follow", "follow the newest", show=False, id="streams.follow"),
    Binding("S", "stats", "stats", tooltip="stats of what is listed (figures)", id="streams.stats"),
    Binding("backslash", "toggle_filter", "filter on or off", show=False, key_display="\\", id="streams.toggle"),
    Binding("apostrophe", "views", "saved views", show=False, key_display="'", id="streams.views"),
    Binding("O", "reverse", "reverse the order (sort)", show=False, id="streams.reverse"),
    Binding("p", "preview", "preview, shown or not", show=False, id="streams.preview"),
    Binding("R", "reload", "read again, in order (refresh)", show=False, id="streams.reload"),
    Binding("C", "columns", "columns, to show or to hide", show=False, id="streams.columns"),
    Binding("escape", "clear", "marks away, then the filter off", show=False, id="streams.clear"),
)
"""The footer shows the first of them, help before all."""

OF_ROWS: Final = frozenset({"open", "mark", "order", "reverse", "columns", "follow", "stats", "preview"})
"""What there is nothing to do with where nothing is listed."""

"""The keys of the race: they move the playhead as in the inspector, and what can be set there is set for both lanes."""

from typing import Final

from textual.binding import Binding, BindingType

from viewer.tui.base.keys import BACK, HELP

KEYS: Final[list[BindingType]] = [
    *HELP,
    Binding("space", "play", "race", id="replay.play", tooltip="race or pause"),
    Binding("full_stop", "step(1)", "step both", key_display=". ,", id="replay.step_forward"),
    Binding("comma", "step(-1)", "step both back", key_display=",", id="replay.step_back", show=False),
    Binding("less_than_sign", "faster(-1)", "play slower (speed)", id="replay.slower", show=False),
    Binding("greater_than_sign", "faster(1)", "play faster (speed)", id="replay.faster", show=False),
    Binding("equals_sign", "faster(0)", "normal speed", id="replay.normal_speed", show=False),
    Binding("left", "seek(-1)", "a second back", id="replay.second_back", show=False),
    Binding("right", "seek(1)", "a second on", id="replay.second_on", show=False),
    Binding("H,shift+left", "jump(-10)", "a tenth back", id="replay.tenth_back", show=False),
    Binding("L,shift+right", "jump(10)", "a tenth on", id="replay.tenth_on", show=False),
    Binding("home", "end(0)", "to the start", id="replay.start", show=False),
    Binding("end,G", "end(1)", "to the end", id="replay.end", show=False),
    Binding("f", "follow", "follow the end of what still runs", id="replay.follow", show=False),
    Binding("i", "idle", "idle", id="replay.idle", tooltip="cut short what is silence of both"),
    Binding("A", "align", "align", id="compare.align", tooltip="align by request, first byte, content or offset"),
    Binding("X", "swap", "swap", id="compare.swap", tooltip="swap A and B"),
    Binding("d", "text", "text diff", id="compare.text", tooltip="where the texts part"),
    BACK,
]
"""Each has an id, so that it can be changed in the configuration: one that is the inspector's, too, for both."""

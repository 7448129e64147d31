"""Formats and figures of other tools: HTTP archives, traces for load generators, and a tape measured as they do."""

from wiretape.viewer.contracts import Export, Options, Wing

WING = Wing(
    options=(
        Options("export", "trace", f"{__name__}.export:trace", "--with-messages is for traces: add --format trace"),
    ),
    exports=(
        Export(
            "har", f"{__name__}.export:write_har", "exchange", "any number of exchanges", suffix=".har",
            needs_exchange=False, is_masked=True,
        ),
        Export(
            "trace", f"{__name__}.export:write_trace", "row", "the traffic for load generators (help trace)",
            options="trace", needs_exchange=False, has_operations=True,
        ),
    ),
    tools=f"{__name__}.rules:TOOLS",
)  # fmt: skip

"""Questions about a tape, answered to coding agents."""

from wiretape.viewer.contracts import Command, Extra, Wing

WING = Wing(
    commands=(Command(
        "mcp", f"{__name__}.command:mcp", "Ask", "export", "Serve a tape to coding agents, by MCP.",
        ("mcp --print-skill", "mcp --db demo.db", "mcp --db demo.db --with-text"),
    ),),
    extras=(Extra("mcp", "mcp", "wiretape mcp"),),
)  # fmt: skip

"""The tools whose definitions `stats --as` takes, by name."""

from typing import Final

from wiretape.viewer import contracts
from wiretape.viewer.stats.tools.rule import MeasuringTool

AUTHORITIES: Final[dict[str, MeasuringTool]] = {
    name: rule
    for wing in contracts.built_in().values()
    if wing.tools
    for name, rule in contracts.load(wing.tools).items()
}
TOOLS: Final[tuple[str, ...]] = tuple(AUTHORITIES)


def authority(tool: str) -> MeasuringTool:
    """Return the rule of a tool; raise `ValueError` with the known names if it is unknown."""
    if tool not in AUTHORITIES:
        raise ValueError(f"{tool!r} is not a known tool: choose from {', '.join(TOOLS) or 'none'}")
    return AUTHORITIES[tool]

"""Pure: what the screens show of many exchanges."""

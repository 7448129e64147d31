"""Pure: what the screens show of one exchange."""

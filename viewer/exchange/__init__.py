"""Pure: the content of the screens of one exchange."""

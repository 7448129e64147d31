"""Pure: the content of the screens of many exchanges."""

"""Pure: strings, bytes and trees for display."""

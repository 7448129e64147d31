"""Help, menus and offers."""

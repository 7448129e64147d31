"""What the screens show, worked out without a screen: rows and bodies in, lines, cells and places out."""

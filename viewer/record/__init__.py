"""Records that the viewer shows: fields, rows, cells."""

"""What the viewer shows, as records: fields, rows, cells."""

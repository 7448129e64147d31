"""Other programs' recordings, read and put on a tape."""

"""One module for each framing: bytes in, records with their byte ranges out."""

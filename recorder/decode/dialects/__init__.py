"""One module for each API dialect: a JSON object in, a chunk out."""

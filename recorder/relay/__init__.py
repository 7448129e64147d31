"""From the client's socket to the tap, and on to the API."""

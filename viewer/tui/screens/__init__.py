"""What fills the terminal: each screen fetches what its widgets show."""

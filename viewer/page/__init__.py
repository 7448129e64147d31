"""Pages: exchanges as one HTML file each, with all that it needs inside."""

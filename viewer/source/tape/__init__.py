"""Every SELECT of the viewer, and the decoding of one exchange."""

"""A scripted upstream and synthetic tapes."""

"""What a screen is made of: widgets that are given data, and never fetch any."""

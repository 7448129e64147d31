"""The parts of screens: widgets that are given data, and never fetch any."""

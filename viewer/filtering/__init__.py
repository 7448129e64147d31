"""The filter language: reading it, completing it, and what it means for a row and in SQL."""

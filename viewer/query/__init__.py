"""The filter language: from the text of a filter to SQL."""

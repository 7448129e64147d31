"""How other tools measure a stream: each defines its figures its own way, from what it gets to see."""

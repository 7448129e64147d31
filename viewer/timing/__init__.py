"""Pure: stalls, bursts, who was slow, playback."""

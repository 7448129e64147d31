"""Pure: stalls, bursts, their attribution, and playback."""

"""Many recorders, one centre: shipping what is settled on tapes to ClickHouse, and the centre's tables."""

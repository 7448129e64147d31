"""Shipping of recorded exchanges to other systems, during a recording or afterwards."""

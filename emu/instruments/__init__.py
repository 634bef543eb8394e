"""Instruments: observe guests, judge their runs, and drive many runs."""

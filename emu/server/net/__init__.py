"""The networks between functions."""

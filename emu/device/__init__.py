"""The state of a function between two resets, and what watches over it."""

"""The state of a function between two resets, and the code that monitors it."""

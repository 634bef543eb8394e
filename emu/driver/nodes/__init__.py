"""Functions in this process, each with a guest and a driver of its own."""

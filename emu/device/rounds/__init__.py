"""A round of the loop: its budget, what waits for the next ones, and work cut into portions."""

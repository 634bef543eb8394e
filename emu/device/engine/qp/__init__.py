"""Queue pairs: their states, their requests, and what happens when a state changes."""

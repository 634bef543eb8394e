"""Queue pairs: states, send requests, flush, and the effects of a state change."""

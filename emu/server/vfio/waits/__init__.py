"""How the loop waits: for descriptors, for timers, and for no write that blocks."""

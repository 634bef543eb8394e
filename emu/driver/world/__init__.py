"""Memory, interrupts, time and a wire that a test controls."""

"""Memory, interrupts, time, a wire and a cable that a test controls."""

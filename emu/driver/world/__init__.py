"""The world in a test's hand: memory, interrupts, time and a wire that do nothing by themselves."""

"""For tests in guests."""

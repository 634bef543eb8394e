"""Keys that work requests and page faults change."""

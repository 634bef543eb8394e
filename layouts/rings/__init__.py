"""What stands in the rings in guest memory: work requests, completions, events."""

"""A subnet of switches and channel adapters from a file, that a manager in a guest sets up."""

"""Execution engine: work queues, memory keys, both ends of a message, completions and events."""

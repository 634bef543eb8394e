"""How the device executes: work queues, memory keys, both ends of a message, completions."""

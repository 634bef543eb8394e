"""A driver to use a function with, without a kernel: commands, verbs, queues, two nodes."""

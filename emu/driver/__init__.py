"""Driver of a function in pure Python, without a kernel: commands, verbs, queues, two nodes."""

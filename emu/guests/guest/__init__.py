"""A guest that runs: its processes and consoles, its commands, its end."""

"""A running guest: its processes and consoles, its commands, its end."""

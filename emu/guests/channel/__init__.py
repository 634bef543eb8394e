"""The protocol between the host and the program inside a guest: frames, and the host's commands."""

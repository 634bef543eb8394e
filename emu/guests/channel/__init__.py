"""How the host and the program inside a guest talk: frames, and commands seen from the host."""

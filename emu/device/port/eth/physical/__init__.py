"""Components of the physical port: link modes, error correction, the plugged module."""

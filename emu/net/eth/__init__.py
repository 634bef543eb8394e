"""What lies between Ethernet functions and the world: segments, and the links that leave them."""

"""What lies between Ethernet functions and the world: segments, and the uplinks that leave them."""

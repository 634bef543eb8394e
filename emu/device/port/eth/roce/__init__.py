"""RoCE: packets of the InfiniBand transport in Ethernet frames, and the addresses of a port."""

"""RoCE v2: packets of the InfiniBand transport in UDP datagrams, and the addresses of a port."""

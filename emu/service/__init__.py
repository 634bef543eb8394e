"""A server: what it is asked to be, its functions behind sockets, its faults, its trace."""

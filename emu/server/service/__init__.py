"""A server: its device specifications, its functions behind sockets, its faults, its trace."""

"""A server: device specifications, functions behind sockets, faults, trace."""

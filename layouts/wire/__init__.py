"""Structures on an InfiniBand wire: transport headers and management datagrams."""

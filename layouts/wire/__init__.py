"""What goes over an InfiniBand wire: transport headers and management datagrams."""

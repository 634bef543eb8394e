"""Ways to functions and between them that are sockets."""

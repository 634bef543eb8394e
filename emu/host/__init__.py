"""The host's own side: sockets and files in directories of others, text for a terminal."""

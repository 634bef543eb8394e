"""The host side: sockets and files in directories of other users, text for a terminal."""

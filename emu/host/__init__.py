"""The host side: sockets and files in other users' directories, text for a terminal."""

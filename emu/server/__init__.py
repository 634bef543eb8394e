"""The server process: vfio-user, vhost-user, networks, the control socket, and their assembly."""

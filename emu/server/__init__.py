"""What serves functions: vfio-user, networks, the control socket, and the process around them."""

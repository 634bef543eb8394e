"""vhost-user with PCI over virtio: the transport of a User-Mode Linux kernel."""

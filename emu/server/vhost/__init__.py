"""vhost-user with PCI over virtio: how a User-Mode Linux kernel reaches a function."""

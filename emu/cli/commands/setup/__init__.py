"""What guests are made of: images, kernels, QEMU, and whether all is there."""

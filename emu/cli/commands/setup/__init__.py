"""Set-up: images, kernels, QEMU, the guide, and checks of the host."""

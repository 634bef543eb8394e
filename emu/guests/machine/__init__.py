"""The machine that a guest boots in: QEMU, its command line, its initramfs."""

"""The machine of a guest: QEMU, its command line, its initramfs."""

"""Programs inside the guest, from its first process on; the initramfs contains them."""

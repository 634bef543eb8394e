"""What runs inside the guest from its first process on. The initramfs takes it there."""

"""What the device has done and what the guest's kernel says of it, on one time line."""

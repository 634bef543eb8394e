"""The device's events and the guest kernel's log on one time line."""

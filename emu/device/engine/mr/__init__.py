"""Memory keys: translate a key and an address to the guest's bytes."""

"""Memory keys at work: from a key and an address to the guest's own bytes."""

"""Tag matching: messages to buffers that were posted with tags; rendezvous by the adapter."""

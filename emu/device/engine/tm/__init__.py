"""Tag matching: messages to buffers posted with tags; rendezvous by the adapter."""

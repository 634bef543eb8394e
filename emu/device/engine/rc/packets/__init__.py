"""Connected services in packets: messages to and from another process."""

"""How the device executes: queue buffers, event and completion queues, and (later) transports."""

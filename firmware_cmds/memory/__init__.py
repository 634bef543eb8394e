"""Commands on memory keys and on the adapter's own memory."""

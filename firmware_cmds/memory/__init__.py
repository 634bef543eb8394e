"""Commands on memory that keys open, the adapter's own included."""

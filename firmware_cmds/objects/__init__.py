"""Commands on the objects that a driver creates."""

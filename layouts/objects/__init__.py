"""Objects that a driver creates: an object's context, and the commands on it."""

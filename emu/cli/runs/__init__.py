"""Running a command in a guest, and its result."""

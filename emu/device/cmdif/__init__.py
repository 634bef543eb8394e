"""The command interface: how a firmware command is read, dispatched and answered."""

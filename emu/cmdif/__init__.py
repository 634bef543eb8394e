"""The command interface: how a firmware command comes in, is dispatched and answered."""

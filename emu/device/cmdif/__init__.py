"""The command interface: reads, dispatches and completes firmware commands."""

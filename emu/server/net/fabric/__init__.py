"""The star of processes on a fabric: its address, hub, members and protocol."""

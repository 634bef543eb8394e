"""The star of processes that share a fabric: its address, hub, members and their protocol."""

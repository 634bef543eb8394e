"""A subnet of switches and channel adapters from a file, configured by a guest's manager."""

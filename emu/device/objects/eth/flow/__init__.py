"""Flow tables: their groups and entries, the actions, and the cached decisions for packets."""

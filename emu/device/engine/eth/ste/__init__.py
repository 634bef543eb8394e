"""Flow tables that software owns: steering entries (STEs) in ICM, and the way of a packet there."""

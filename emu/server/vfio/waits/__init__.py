"""Waits of the loop: descriptors, timers, and an alarm against writes that block."""

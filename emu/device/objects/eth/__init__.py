"""Ethernet queues, and the objects that steer packets to them."""

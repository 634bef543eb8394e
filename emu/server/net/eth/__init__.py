"""Ethernet segments between functions, and the uplinks that leave them."""

"""Guests: start them, run commands in them, stop them."""

"""Guests: start them, work in them, end them."""

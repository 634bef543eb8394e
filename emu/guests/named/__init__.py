"""Guests that outlive the command that started them, found by name; topologies of many."""

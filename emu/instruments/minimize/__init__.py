"""Minimizes inputs that show a failure: removes items that the failure does not need."""

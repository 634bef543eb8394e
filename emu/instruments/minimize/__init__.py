"""Minimizes inputs that show a failure: removes what the failure does not need."""

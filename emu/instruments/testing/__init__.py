"""What the pytest plugin gives to tests, and what it watches meanwhile."""

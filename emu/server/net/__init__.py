"""What lies between functions."""

"""What tests of functions share."""

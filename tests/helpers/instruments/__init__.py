"""What tests of instruments share."""

"""Files as others make them."""

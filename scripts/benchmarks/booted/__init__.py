"""Parts that boot guests, and what they share."""

"""Images of guests: the recipe of each suite, built once and kept in the cache."""

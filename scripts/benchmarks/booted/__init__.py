"""Parts of the benchmarks that boot guests, and their common modules."""

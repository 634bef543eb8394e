"""Networks between InfiniBand functions: their wire, and the subnet's administrator."""

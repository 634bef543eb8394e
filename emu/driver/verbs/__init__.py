"""Objects of a verbs provider: regions, queue pairs, completions."""

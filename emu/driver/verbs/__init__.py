"""What a verbs provider does: regions, queue pairs, completions."""

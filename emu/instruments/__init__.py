"""What looks on at guests and judges them: coverage, outcomes, campaigns, fuzzing, pages."""

"""Trials: campaigns, fuzzing, replays, minimal plans, coverage."""

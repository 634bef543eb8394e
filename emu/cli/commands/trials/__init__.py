"""Trials: campaigns, chaos, fuzzing, replays, minimal plans, coverage."""

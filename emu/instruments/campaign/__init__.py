"""Campaigns: many runs of guests from one matrix, on this machine or on a cluster; one report."""

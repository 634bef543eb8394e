"""Formats a finding as a mail for the kernel's list: effect, source location, patch."""

"""Completion and event queues."""

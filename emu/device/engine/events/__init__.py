"""Completion queues, event queues and their interrupts."""

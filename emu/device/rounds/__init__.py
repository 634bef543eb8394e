"""Rounds of the event loop: their budget, the backlogs for later rounds, and work cut into
steps.
"""

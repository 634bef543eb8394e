"""What rounds of the loop cost, by what runs in them beside the functions."""

from __future__ import annotations

from itertools import chain


class Costs:
    """The steps of each round of some nodes, seen before and behind each function."""

    def __init__(self, *nodes):
        self._budget = nodes[0].hca.budget
        self._most = 0
        for node in nodes:
            bar = node.driver.bar
            bar.functions = (self, *chain.from_iterable((one, self) for one in bar.functions))

    def poll(self):
        """Look; there is no work here."""
        self._most = max(self._most, self._budget.steps)
        return False

    def most(self):
        """The steps of the most expensive round since the last call; a round begins."""
        self.poll()
        self._budget.begin()
        most, self._most = self._most, 0
        return most

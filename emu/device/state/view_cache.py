"""The cached views of guest memory of a function: those of its keys, and those of its rings."""

from __future__ import annotations

from emu.device.objects.memory.ring_page import RingPages
from emu.device.ports import GuestMemory
from emu.device.state.probes import Probes
from emu.device.state.tables import ObjectTables


class ViewCache:
    """The cached views of one function. Fault rules observe each access, so nothing is cached then.

    ``emu.device.engine.mr.cache`` fills the caches of keys.
    """

    __slots__ = ("_tables", "count", "keys", "memory", "probes", "ring_pages")

    def __init__(self, memory: GuestMemory, probes: Probes, tables: ObjectTables) -> None:
        self.memory = memory
        self.probes = probes
        self._tables = tables
        self.ring_pages = RingPages(memory, lambda: probes.faults is None)
        """Views of the pages of rings."""
        self.count = 0
        """Number of views that keys have cached since all views were last dropped."""
        self.keys: set[int] = set()
        """Indices of keys with cached views; may include keys that no longer exist."""

    def forget(self) -> None:
        """Drop the cached views of keys and rings; the next access takes new ones.

        The cost is at most that of creating the views: only keys in ``keys`` are visited.
        """
        mkeys = self._tables.mkeys
        for index in self.keys:
            if (mkey := mkeys.get(index)) is not None:
                mkey.forget_views()
        self.keys.clear()
        self.count = 0
        self.ring_pages.forget()

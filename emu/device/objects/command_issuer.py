"""The sender of the running command, and the objects that the sender may use."""

from __future__ import annotations

from collections import Counter

from emu.device.objects.object import DRIVER_UID, SHARED_UID, Object


class CommandIssuer:
    """The sender of the running command: the ``uid`` that the driver writes into its header."""

    __slots__ = ("owned", "uid")

    def __init__(self) -> None:
        self.uid = DRIVER_UID
        self.owned: Counter[int] = Counter()
        """Number of objects by owner uid."""

    def owns(self, item: Object) -> bool:
        """Return whether the sender may destroy ``item``: the driver any, a user only its own."""
        return self.uid in (DRIVER_UID, SHARED_UID, item.uid)

    def may_use(self, item: Object) -> bool:
        """Return whether the sender may refer to ``item``: the driver to any, a user to its own.

        Objects with SHARED_UID are for all users.
        """
        return item.uid == SHARED_UID or self.owns(item)

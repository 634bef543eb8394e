"""Whose objects they are."""

from __future__ import annotations

from collections import Counter

from emu.device.objects.object import DRIVER_UID, SHARED_UID, Object


class CommandIssuer:
    """The sender of the running command: the ``uid`` that the driver writes into its header."""

    __slots__ = ("owned", "uid")

    def __init__(self) -> None:
        self.uid = DRIVER_UID
        self.owned: Counter[int] = Counter()
        """How many objects each user context owns."""

    def owns(self, item: Object) -> bool:
        """Whether the caller may destroy it: the driver may destroy all, a user only its own."""
        return self.uid in (DRIVER_UID, SHARED_UID, item.uid)

    def may_use(self, item: Object) -> bool:
        """Whether the caller may refer to it: its own objects, and those that the driver shares."""
        return item.uid == SHARED_UID or self.owns(item)

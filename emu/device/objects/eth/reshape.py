"""Changes that move the headers of a packet, which is then parsed again.

Source: PRM "Flow steering"; core/fs_cmd.c: mlx5_cmd_set_fte (push_vlan).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.device.objects.eth.modify_header import ModifyHeader
from emu.device.objects.eth.packet_reformat import PacketReformat


class Reshape:
    """A header-moving change of a flow table entry."""

    __slots__ = ("changes", "in_frame", "name", "needs_whole", "parts", "reshapes")

    def __init__(
        self,
        name: str,
        change: Callable[[Any], bytes],
        parts: frozenset[Any] = frozenset(),
        *,
        needs_whole: bool = False,
        copies: int = 1,
    ) -> None:
        """Create the change; ``change`` rebuilds the frame, ``parts`` as in :class:`ModifyHeader`.

        ``needs_whole``: lengths and checksums of the packet must be valid first. ``copies`` is the
        number of times that the frame is rebuilt.
        """
        self.name = name
        self.changes = (change,)
        self.parts = parts
        self.in_frame = True
        self.reshapes = copies
        self.needs_whole = needs_whole

    def __repr__(self) -> str:
        return self.name


Step = ModifyHeader | PacketReformat | Reshape
"""A change that an entry makes to a packet before its delivery."""


class Steps:
    """A sequence of steps, and the properties of the whole sequence.

    The properties are computed once, with the decision for a packet and all equal packets.
    """

    __slots__ = ("changes", "in_frame", "needs_whole", "reshapes", "steps")

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.changes = [change for step in steps for change in step.changes]
        """Changes of all steps, in order."""
        self.in_frame = any(step.in_frame for step in steps)
        self.reshapes = sum(step.reshapes for step in steps)
        """Number of times that the steps rebuild the frame."""
        self.needs_whole = any(step.needs_whole for step in steps)

    def __repr__(self) -> str:
        return repr(self.steps)


def together(steps: tuple[Step, ...]) -> Steps | None:
    """Return the steps as one object; None for an empty tuple."""
    return Steps(steps) if steps else None

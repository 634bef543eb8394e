"""Changes that move the headers of a packet: what stands behind them is found anew.

Source: PRM "Flow steering"; core/fs_cmd.c: mlx5_cmd_set_fte (push_vlan).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.device.objects.eth.modify_header import ModifyHeader
from emu.device.objects.eth.packet_reformat import PacketReformat


class Reshape:
    """One such change of an entry of a flow table."""

    __slots__ = ("changes", "in_frame", "name", "needs_whole", "parts", "reshapes")

    def __init__(
        self,
        name: str,
        change: Callable[[Any], bytes],
        parts: frozenset[Any] = frozenset(),
        *,
        needs_whole: bool = False,
    ) -> None:
        """``change`` makes the frame of a packet anew; ``parts`` as in :class:`ModifyHeader`.

        ``needs_whole``: lengths and checksums of the packet have to be right before.
        """
        self.name = name
        self.changes = (change,)
        self.parts = parts
        self.in_frame = self.reshapes = True
        self.needs_whole = needs_whole

    def __repr__(self) -> str:
        return self.name


Step = ModifyHeader | PacketReformat | Reshape
"""What an entry does with a packet before the packet goes to its destinations."""


class Steps:
    """Steps one after the other, and what is true of all of them together.

    That is found once, when it is decided what becomes of a packet and of all packets like it.
    """

    __slots__ = ("changes", "in_frame", "needs_whole", "reshapes", "steps")

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.changes = [change for step in steps for change in step.changes]
        """Of all of them, one after the other."""
        self.in_frame = any(step.in_frame for step in steps)
        self.reshapes = sum(step.reshapes for step in steps)
        """How many of them make the frame anew."""
        self.needs_whole = any(step.needs_whole for step in steps)

    def __repr__(self) -> str:
        return repr(self.steps)


def together(steps: tuple[Step, ...]) -> Steps | None:
    """These steps, None when there is none."""
    return Steps(steps) if steps else None

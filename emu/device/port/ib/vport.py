"""Settings of a virtual function's InfiniBand vPort that its physical function has made.

Source: PRM "HCA vPort Context"; hw/mlx5/ib_virt.c, core/sriov.c: sriov_restore_guids.
"""

from __future__ import annotations

from dataclasses import dataclass

from layouts.enums.vport import VportPolicy


@dataclass(slots=True)
class HcaVport:
    """The settings; they survive resets of the virtual function, not those of the physical one."""

    policy: VportPolicy = VportPolicy.DOWN
    """Whether the vPort's link is down, up, or follows that of the physical port.

    Adapters keep it down until the physical function's administrator chooses.
    """
    port_guid: int = 0
    """0: the one that the adapter has assigned."""
    node_guid: int = 0
    """0: the one that the adapter has assigned."""

    def clear(self) -> None:
        """Return to the settings of power-on."""
        self.policy, self.port_guid, self.node_guid = VportPolicy.DOWN, 0, 0

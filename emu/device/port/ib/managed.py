"""The settings of a port by a subnet manager: port_info, P_Keys, virtual lanes.

Source: IBTA volume 1, 14.2.4 (M_Key), 14.2.5.6 (port_info: valid values), 14.2.5.7 to 14.2.5.9
(P_KeyTable, SLtoVLMappingTable, VLArbitrationTable). A function's port has such a record while a
subnet manager configures it. Each port of a simulated node has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from layouts.enums.vport import PhysState, PortState
from layouts.wire.bth import MULTICAST_LID
from layouts.wire.mads import pkey_table, port_info

if TYPE_CHECKING:
    from layouts.wire.mads import smp

PKEYS_OF_A_BLOCK: Final = 32
ARBITRATION_BLOCKS: Final = (1, 2, 3, 4)
"""Blocks: the two halves of the low priorities, then those of the high ones (IBTA 14.2.5.9)."""
SL_TO_VL_BYTES: Final = 8
_VLS: Final = 8
_SLS: Final = 16
_CHOICES: Final = {"link_width": 0xFF, "link_speed": 0xF, "link_speed_ext": 0x1F}
"""Fields that a manager chooses, with the value that enables all that are supported."""
_HIDES_MKEY: Final = 1
_GUARDS_READS: Final = 2
_MAX_VIOLATIONS: Final = 0xFFFF
_NS_PER_S: Final = 1_000_000_000

KEPT: Final = (
    "mkey", "gid_prefix", "lid", "sm_lid", "mkey_lease_period", "mkey_protect_bits", "lmc",
    "link_down_default_state", "neighbor_mtu", "master_sm_sl", "operational_vls", "vl_high_limit",
    "vl_stall_count", "hoq_life", "partition_enforcement_inbound",
    "partition_enforcement_outbound", "filter_raw_inbound", "filter_raw_outbound",
    "mkey_violations", "pkey_violations", "qkey_violations", "subnet_timeout", "local_phy_errors",
    "overrun_errors",
)  # fmt: skip
"""The fields of port_info that a manager sets and that are only stored."""


def _lanes() -> bytes:
    """Return four bits for each service level, which use the lanes in rotation."""
    return bytes(sl % _VLS << 4 | (sl + 1) % _VLS for sl in range(0, _SLS, 2))


SL_TO_VL: Final = _lanes()
"""SLtoVLMappingTable of a port without a manager's setting."""


def pkey_block(pkeys: tuple[int, ...], entries: int, block: int) -> bytes | None:
    """Return a block of 32 P_Keys of a table with ``entries`` entries; None beyond its end.

    Entries that are not set are 0.
    """
    first = block * PKEYS_OF_A_BLOCK
    if first >= entries:
        return None
    keys = list(pkeys[first : first + PKEYS_OF_A_BLOCK])
    return bytes(pkey_table.new(pkey=keys + [0] * (PKEYS_OF_A_BLOCK - len(keys))))


class ManagedPort:
    """A port with its manager's settings."""

    def __init__(self, info: port_info, pkeys: tuple[int, ...], pkey_entries: int) -> None:
        """Create the record; ``pkey_entries`` is the size of the port's P_Key table."""
        self.info = info
        self.pkeys = pkeys
        self._pkey_entries = pkey_entries
        self.sl_to_vl: dict[int, bytes] = {}
        """Tables by the ingress port of a packet; channel adapters have only 0."""
        self.arbitration: dict[int, bytes] = {}
        """VLArbitrationTable, by block."""
        self.on_repress: Callable[[int], None] = lambda tid: None
        """Called for the manager's TrapRepress, with its transaction number."""
        self.on_bad_mkey: Callable[[smp, int], None] = lambda mad, slid: None
        """Called for an SMP with a wrong M_Key, with the SMP and its source LID."""
        self._lease_ends = 0
        """End of the M_Key's protection, in ns; 0 while its lease period is not counting."""

    @property
    def state(self) -> PortState:
        """The logical state."""
        return PortState(self.info.port_state)

    @property
    def is_disabled(self) -> bool:
        """Whether a manager has disabled the link."""
        return self.info.port_physical_state == PhysState.DISABLED

    def connect(self, *, has_link: bool) -> None:
        """Follow a change of the link: DOWN without one, INIT with a new one.

        A manager then has to activate the port (IBTA 7.2.7). A link that the manager has disabled
        stays so.
        """
        info = self.info
        if not has_link:
            info.port_state = PortState.DOWN
            if info.port_physical_state != PhysState.DISABLED:
                info.port_physical_state = PhysState.POLLING
        elif info.port_state == PortState.DOWN:
            info.port_state, info.port_physical_state = PortState.INIT, PhysState.LINK_UP

    def allows(self, mkey: int, now: int, *, is_set: bool) -> bool:
        """Return whether a request with this M_Key is allowed; count a wrong key (14.2.4.1).

        A wrong key is refused for a Set, and for a Get if ``mkey_protect_bits`` guards reads. The
        first one starts the lease period, at whose end the protect bits become 0, so that reads are
        allowed. A request with the right key stops the period (14.2.4.2). ``now`` is in ns.
        """
        info = self.info
        if self._lease_ends and now >= self._lease_ends:
            info.mkey_protect_bits = self._lease_ends = 0
        if info.mkey in (0, mkey):
            self._lease_ends = 0
            return True
        if not (is_set or info.mkey_protect_bits >= _GUARDS_READS):
            return True
        info.mkey_violations = min(info.mkey_violations + 1, _MAX_VIOLATIONS)
        if info.mkey_lease_period and not self._lease_ends:
            self._lease_ends = now + info.mkey_lease_period * _NS_PER_S
        return False

    def info_for(self, mkey: int) -> bytes:
        """Return port_info for a requester with this M_Key.

        The key in it is 0 for a requester with another key while the protect bits are set.
        """
        if mkey == self.info.mkey or self.info.mkey_protect_bits < _HIDES_MKEY:
            return bytes(self.info)
        shown = self.info.copy()
        shown.mkey = 0
        return bytes(shown)

    def set_info(self, given: port_info, *, is_end: bool = True) -> str:
        """Apply a port_info from a Set; return the error, with no change, or "".

        Errors: invalid LIDs, MTU, virtual lanes, widths, speeds and state transitions. A port that
        is set down goes to Polling or Disabled. ``is_end``: the port has LIDs, as all have except a
        switch's external ones.
        """
        if wrong := self._wrong(given, is_end=is_end):
            return wrong
        info = self.info
        for name in KEPT:
            setattr(info, name, getattr(given, name))
        if not is_end:
            info.lid = info.sm_lid = info.lmc = 0
        for kind, every in _CHOICES.items():
            _choose(info, given, kind, every)
        if given.port_physical_state:
            self._take_down(PhysState(given.port_physical_state))
        elif given.port_state == PortState.DOWN:
            self._take_down(PhysState.POLLING)
        elif given.port_state:
            info.port_state = given.port_state
        return ""

    def _take_down(self, state: PhysState) -> None:
        """Take the link down; the cable determines whether it trains again."""
        self.info.port_state, self.info.port_physical_state = PortState.DOWN, state

    def _wrong(self, given: port_info, *, is_end: bool) -> str:
        """Return the error in a port_info to be set, or "". A LID of 0 is valid up to INIT."""
        info = self.info
        if is_end:
            is_early = info.port_state <= PortState.INIT
            if not (given.lid or is_early) or given.lid >= MULTICAST_LID:
                return "lid is not a unicast LID"
            if not (given.sm_lid or is_early) or given.sm_lid >= MULTICAST_LID:
                return "sm_lid is not a unicast LID"
        if not 1 <= given.neighbor_mtu <= info.mtu_cap:
            return "neighbor_mtu is 0 or above mtu_cap"
        if given.operational_vls > info.vl_cap:
            return "operational_vls is above vl_cap"
        for kind, every in _CHOICES.items():
            chosen, there = getattr(given, f"{kind}_enabled"), getattr(info, f"{kind}_supported")
            if chosen != every and chosen & ~there:
                return f"{kind}_enabled has unsupported bits"
        return _wrong_states(info.port_state, given.port_state, given.port_physical_state)

    def pkey_block(self, block: int) -> bytes | None:
        """Return a block of the P_Key table; None beyond its end."""
        return pkey_block(self.pkeys, self._pkey_entries, block)

    def set_pkeys(self, block: int, data: bytes) -> bool:
        """Write a block of 32 P_Keys; return False, with no change, beyond the table's end."""
        if block * PKEYS_OF_A_BLOCK >= self._pkey_entries:
            return False
        first = block * PKEYS_OF_A_BLOCK
        keys = [*self.pkeys, *[0] * (self._pkey_entries - len(self.pkeys))]
        keys[first : first + PKEYS_OF_A_BLOCK] = list(pkey_table.view(data).pkey)
        while keys and not keys[-1]:
            keys.pop()
        self.pkeys = tuple(keys)
        return True


def _choose(info: port_info, given: port_info, kind: str, every: int) -> None:
    """Set the enabled widths or speeds: 0 keeps them, ``every`` enables all supported ones."""
    requested = getattr(given, f"{kind}_enabled")
    if requested:
        chosen = getattr(info, f"{kind}_supported") if requested == every else requested
        setattr(info, f"{kind}_enabled", chosen)


def _wrong_states(now: int, state: int, physical: int) -> str:
    """Return the error in a state change, or "".

    A port moves from INIT to ARMED to ACTIVE, not both states at once; a manager can set DOWN at
    any time. The physical state can only be set to Polling and Disabled, not together with another
    state (14.2.5.6).
    """
    if physical not in (0, PhysState.POLLING, PhysState.DISABLED):
        return "this port_physical_state cannot be set"
    if state in (PortState.NOP, PortState.DOWN):
        return ""
    if physical:
        return "port_state and port_physical_state are both set"
    if state == PortState.ARMED and now in (PortState.INIT, PortState.ARMED):
        return ""
    if state == PortState.ACTIVE and now in (PortState.ARMED, PortState.ACTIVE):
        return ""
    return "invalid transition of port_state"

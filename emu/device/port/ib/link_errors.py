"""Errors of a link: the port's counters, and the traps to the subnet manager.

Source: IBTA volume 1, 7.12.2 (thresholds), 14.2.5.6 (LocalPhyErrors, OverrunErrors), 16.1.3.5
(counters), 14.2.5.1 (traps 129 to 131). Links have no errors by themselves; only faults cause them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from layouts.wire.mads import SmaTrap

if TYPE_CHECKING:
    from layouts.wire.mads import port_info

SYMBOL_ERRORS: Final = "symbol_error_counter"
RECEIVE_ERRORS: Final = "port_rcv_errors"
RECOVERIES: Final = "link_error_recovery_counter"
INTEGRITY_ERRORS: Final = "local_link_integrity_errors"
OVERRUN_ERRORS: Final = "excessive_buffer_overrun_errors"


class LinkError(Enum):
    """Kinds of errors at a port."""

    SYMBOLS = "symbols"
    """Packets arrive with symbol errors, and are dropped."""
    OVERRUN = "overrun"
    """Packets find no buffer, each in a separate flow control period."""
    WATCHDOG = "watchdog"
    """The peer's flow control packets are late: the link recovers."""


class LinkErrorEffect(NamedTuple):
    """The effects of errors at a port."""

    counters: Mapping[str, int]
    """Increments of counters in PortCounters."""
    trap: SmaTrap | None
    """The trap to the subnet manager, if any."""


def outcome(error: LinkError, count: int, info: port_info) -> LinkErrorEffect:
    """Return the effects of ``count`` errors in quick succession at a port with this port_info.

    Above the port's threshold (LocalPhyErrors, OverrunErrors) one more counter grows by 1 and a
    trap is due; a watchdog error always has a trap. The caller applies the effects.
    """
    if error is LinkError.WATCHDOG:
        return LinkErrorEffect({RECOVERIES: count}, SmaTrap.FLOW_CONTROL_WATCHDOG)
    if error is LinkError.SYMBOLS:
        counters, excess = {SYMBOL_ERRORS: count, RECEIVE_ERRORS: count}, INTEGRITY_ERRORS
        limit, trap = info.local_phy_errors, SmaTrap.LINK_INTEGRITY
    else:
        counters, excess = {RECEIVE_ERRORS: count}, OVERRUN_ERRORS
        limit, trap = info.overrun_errors, SmaTrap.BUFFER_OVERRUN
    if count <= limit:
        return LinkErrorEffect(counters, None)
    return LinkErrorEffect(counters | {excess: 1}, trap)

"""Hairpin queues of functions, created and paired as in core/transobj.c."""

from __future__ import annotations

from typing import Any

from emu.driver.command.driver import Driver
from layouts.enums.cmd import Op
from layouts.enums.wq import RqState, SqState

LOG_DATA_BYTES, LOG_PACKETS = 16, 10
"""Sizes that Linux 6.1 requests."""


def sizes(log_data_bytes: int = LOG_DATA_BYTES, log_packets: int = LOG_PACKETS) -> dict[str, int]:
    """Return the hairpin sizes of a context's wq."""
    return {"log_hairpin_data_sz": log_data_bytes, "log_hairpin_num_packets": log_packets}


def create_hairpin_rq(driver: Driver, wq: dict[str, int] | None = None, **context: Any) -> int:
    """Create a hairpin receive queue in RST; return its number."""
    ctx = {"hairpin": 1, "wq": sizes() | (wq or {})} | context
    return int(driver.must(Op.CREATE_RQ, ctx=ctx).rqn)


def create_hairpin_sq(driver: Driver, wq: dict[str, int] | None = None, **context: Any) -> int:
    """Create a hairpin send queue in RST; return its number.

    The queue has no TIS, like the kernel's. Raises DriverCommandError if refused.
    """
    ctx = {"hairpin": 1, "wq": sizes() | (wq or {})} | context
    return int(driver.must(Op.CREATE_SQ, ctx=ctx).sqn)


def sender_of(number: int, vhca: int, state: SqState = SqState.RST) -> dict[str, Any]:
    """Return fields of MODIFY_SQ that pair a send queue, in ``state``, with a receive queue."""
    ctx = {"state": SqState.RDY, "hairpin_peer_rq": number, "hairpin_peer_vhca": vhca}
    return {"sq_state": state, "ctx": ctx}


def receiver_for(number: int, vhca: int) -> dict[str, Any]:
    """Return fields of MODIFY_RQ that pair a receive queue, in RST, with a send queue."""
    ctx = {"state": RqState.RDY, "hairpin_peer_sq": number, "hairpin_peer_vhca": vhca}
    return {"rq_state": RqState.RST, "ctx": ctx}


class HairpinPair:
    """Pair in RDY: packets that ``one`` receives on the queue are sent by ``other``."""

    def __init__(
        self, one: Driver, other: Driver, vhcas: tuple[int, int] = (0, 0), **wq: int
    ) -> None:
        """Create both queues.

        ``vhcas`` are both vhca ids, ``wq`` the sizes that differ from the default.
        """
        self.one, self.other, self.vhcas = one, other, vhcas
        self.rqn = create_hairpin_rq(one, wq)
        self.sqn = create_hairpin_sq(other, wq)
        self.begin_sending()
        self.begin_receiving()

    def begin_sending(self) -> None:
        """Move the send queue to RDY."""
        self.other.must(Op.MODIFY_SQ, sqn=self.sqn, **sender_of(self.rqn, self.vhcas[0]))

    def begin_receiving(self) -> None:
        """Move the receive queue to RDY."""
        self.one.must(Op.MODIFY_RQ, rqn=self.rqn, **receiver_for(self.sqn, self.vhcas[1]))

    def stop_sending(self) -> None:
        """Move the send queue to RST."""
        ctx = {"state": SqState.RST}
        self.other.must(Op.MODIFY_SQ, sqn=self.sqn, sq_state=SqState.RDY, ctx=ctx)

    def stop_receiving(self) -> None:
        """Move the receive queue to RST."""
        ctx = {"state": RqState.RST}
        self.one.must(Op.MODIFY_RQ, rqn=self.rqn, rq_state=RqState.RDY, ctx=ctx)

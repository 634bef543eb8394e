"""Registry of send operations, by opcode and transport service.

Importing the package imports all its modules, so a decorated function is enough to add an
operation: no list has to be extended.

A function reads the segments behind the control segment, checks the local side, and returns the
work to send: a :class:`Message` (connected services), a :class:`Datagram` (UD) or many of them
(:class:`LargeSend`), or None when the work is local and done. The function raises BadWqeError for a
malformed WQE and AccessError for a key that does not allow the local access; nothing has been sent
by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from emu.device.objects.queues.message import Message
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import Wqe
from emu.device.port.datagram import Datagram, LargeSend
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

SEGMENT_2GIB: Final = 1 << 31
"""Length for byte_count 0 (PRM "Data segment")."""

CONNECTED: Final = frozenset({QpType.RC, QpType.UC, QpType.XRC, QpType.DCI})
"""Services whose requests are messages; DC's start with an address vector."""
RELIABLE: Final = frozenset({QpType.RC, QpType.XRC, QpType.DCI})

Work = Message | Datagram | LargeSend | None
WqeOp = Callable[["Hca", Qp, Wqe], Work]

WQE_OPS: Final[dict[tuple[int, QpType], WqeOp]] = {}


def wqe_op(opcode: Opcode, services: frozenset[QpType]) -> Callable[[WqeOp], WqeOp]:
    """Register the decorated function for an opcode on the given services.

    Raises ValueError at import for a second function of one opcode and service.
    """

    def register(function: WqeOp) -> WqeOp:
        """Enter ``function`` in WQE_OPS for each service; return it unchanged."""
        for service in services:
            if (opcode, service) in WQE_OPS:
                raise ValueError(f"{opcode.name} on {service.name} is taken")
            WQE_OPS[opcode, service] = function
        return function

    return register

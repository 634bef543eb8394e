"""Management datagrams on an InfiniBand subnet: permission to send, and the return path.

Source: IBTA volume 1, 10.2.5 and 10.9.8 (Q_Keys), 13.5.4 (the return path).
"""

from __future__ import annotations

from emu.device.port.datagram import GSI_QKEY, Destination, Origin
from emu.device.port.ib.port import IbPort


def answer_to(to: Destination, origin: Origin) -> Destination:
    """Return the destination of a management response: the return path (IBTA 13.5.4).

    ``to`` and ``origin`` are those of the request. The Q_Key is 0 for QP0, else GSI_QKEY.
    """
    return Destination(
        qpn=origin.qpn,
        qkey=GSI_QKEY if origin.qpn else 0,
        lid=origin.lid,
        sl=to.sl,
        path_bits=0,
        gid=origin.gid if to.gid is not None else None,
        tclass=to.tclass,
        flow_label=to.flow_label,
        hop_limit=to.hop_limit,
    )


def may_manage(port: IbPort, origin: Origin) -> bool:
    """Return whether QP1 accepts a datagram with these keys (IBTA 10.2.5, 10.9.8).

    The Q_Key must be GSI_QKEY, and the P_Key must match one of the port's. No violation is counted.
    """
    return origin.qkey == GSI_QKEY and port.has_match(origin.pkey)

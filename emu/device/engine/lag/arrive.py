"""Frames that arrive at a port of a board with two: RoCE's may be for the master of a LAG.

The master gets them in the loop's next round. What it answers may come back to a port of the board
in the same call, over ports of others that are in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth import receive, roce, sniffer
from emu.device.port.eth.headers import FrameError
from emu.device.port.eth.traffic import FCS_BYTES
from layouts.eth_enums import FlowTableType

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter
    from emu.device.port.eth.frame import Frame
    from emu.device.state.hca import Hca


def arrive(hca: Hca, frame: Frame) -> None:
    """Take a frame from the wire. Nothing raises here.

    One for the master's GIDs is the master's, unless the port's function has the same GID: the two
    may be different guests'. Others pass the master's NIC_RX tables up to the one that tells the
    ports apart, where it has tables before that. The port's own link and MTU count, not those of
    the master's port.
    """
    master = _master_beside(hca)
    if master is None or not hca.nic_vport.is_up:
        receive.arrive(hca, frame)
        return
    if not frame.gso_size and roce.is_for(master, frame.data) and not roce.is_for(hca, frame.data):
        _arrive_roce(hca, master, frame)
    elif not _has_tables(master):
        receive.arrive(hca, frame)
    elif not master.rx_backlog.keep(len(frame.data), _steer, hca.adapter, frame):
        hca.nic_vport.received.discards += 1


def _arrive_roce(hca: Hca, master: Hca, frame: Frame) -> None:
    vport = hca.nic_vport
    if len(frame.data) + FCS_BYTES > vport.oper_mtu:
        vport.received.too_long += 1
        vport.received.errors += 1
        return
    if not hca.switch.is_decided(hca):  # tables count what comes to them
        for adapter in (hca.adapter, master.adapter):
            adapter.forwarded.count_received(frame.data)
    if not master.rx_backlog.keep(len(frame.data), _take, hca.adapter, frame):
        master.nic_vport.received.discards += 1


def _has_tables(master: Hca) -> bool:
    """Whether frames pass tables of the master before the one that tells the ports apart."""
    domain = master.flow_domains.get(FlowTableType.NIC_RX)
    if domain is None or domain.root is None:
        return False
    return bool(domain.demuxes) and not domain.root.is_demux


def _master_beside(hca: Hca) -> Hca | None:
    """The master of a LAG of the vPorts, if it is another port's function and works."""
    board = hca.adapter.board
    lag = board.lag
    if lag is None or not lag.has_vports or lag.of_switches:
        return None
    master = board.master.node
    return None if master is hca or master is None or master.has_failed else master


def _take(adapter: Adapter[Hca], frame: Frame) -> None:
    """Let the master take it, if it still may. What it leaves is the port's own."""
    hca = adapter.manager.node
    if hca is None:
        return
    master = _master_beside(hca)
    if master is not None and master.is_sniffed:
        sniffer.copy_received(master, frame)
    if master is None or not roce.take(master, frame.data):
        receive.arrive(hca, frame)


def _steer(adapter: Adapter[Hca], frame: Frame) -> None:
    """Let the master's tables decide. What they leave is the port's own."""
    hca = adapter.manager.node
    if hca is None:
        return
    master = _master_beside(hca)
    try:
        is_taken = master is not None and receive.take_beside(master, frame, hca.nic_vport)
    except FrameError:
        hca.nic_vport.received.errors += 1
        return
    if not is_taken:
        receive.arrive(hca, frame)

"""Frames received at a board with two ports: RoCE frames may belong to the master of a LAG.

The master receives them in the loop's next round. Its answer may reach a port of this board in the
same call, if the ports in between are in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth import receive, roce, sniffer
from emu.device.engine.eth.steering.packet_context import counts_of
from emu.device.port.eth.headers import FrameError
from emu.device.port.eth.traffic import FCS_BYTES
from layouts.enums.flow_table import FlowTableType

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter, Vhca
    from emu.device.port.eth.frame import Frame
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables


def arrive(hca: Hca, frame: Frame) -> None:
    """Take a frame from the wire; never raise.

    A RoCE frame for one of the master's GIDs goes to the master. If the port's own function has the
    same GID, that function takes the frame: the two may serve different guests. Other frames pass
    the master's NIC_RX tables up to the demux table, if there are tables before it. The receiving
    port's link state and MTU apply. The master takes frames in a later round; a full backlog counts
    discards.
    """
    master = _master_beside(hca.vhca)
    if master is None or not hca.nic_vport.is_up:
        receive.arrive(hca, frame)
        return
    if not frame.gso_size and roce.is_for(master, frame.data) and not roce.is_for(hca, frame.data):
        _arrive_roce(hca, master, frame)
    elif not _has_tables(master):
        receive.arrive(hca, frame)
    elif not master.backlogs.rx.keep(len(frame.data), _steer, hca.adapter, frame):
        hca.nic_vport.received.discards += counts_of(frame)[0]


def _arrive_roce(hca: Hca, master: Hca, frame: Frame) -> None:
    """Count a RoCE frame at the receiving port and put it into the master's backlog.

    A frame above the port's MTU is dropped, counted as too long and as an error. A full backlog
    counts a discard at the master.
    """
    vport = hca.nic_vport
    if len(frame.data) + FCS_BYTES > vport.oper_mtu:
        vport.received.too_long += 1
        vport.received.errors += 1
        return
    if not hca.switch.is_decided(hca):  # tables count the frames that enter them
        for adapter in (hca.adapter, master.adapter):
            adapter.forwarded.count_received(frame.data)
    if not master.backlogs.rx.keep(len(frame.data), _give_to_master, hca.adapter, frame):
        master.nic_vport.received.discards += 1


def _has_tables(tables: ObjectTables) -> bool:
    """Return whether frames pass tables of the master before its demux table.

    False without a NIC_RX root, without a demux table, or if the root is the demux table.
    """
    domain = tables.flow_domains.get(FlowTableType.NIC_RX)
    if domain is None or domain.root is None:
        return False
    return bool(domain.demuxes) and not domain.root.is_demux


def _master_beside(vhca: Vhca[Hca]) -> Hca | None:
    """Return the master of a vPort LAG to which this port's frames may belong, else None.

    None without a LAG, in a LAG of switches, for the master itself, and if the master is missing or
    has failed.
    """
    board = vhca.adapter.board
    lag = board.lag
    if lag is None or not lag.has_vports or lag.of_switches or board.master is vhca:
        return None
    master = board.master.node
    return None if master is None or master.health.has_failed else master


def _give_to_master(adapter: Adapter[Hca], frame: Frame) -> None:
    """Give the frame to the master, if the LAG still exists; otherwise to the port's function.

    The port's function also takes a frame that the master's RoCE does not want. Without a function
    the frame is lost.
    """
    hca = adapter.manager.node
    if hca is None:
        return
    master = _master_beside(hca.vhca)
    if master is not None and master.is_sniffed:
        sniffer.copy(master, master.sniffer_rx, frame)
    if master is None or not roce.take(master, frame.data):
        receive.arrive(hca, frame)


def _steer(adapter: Adapter[Hca], frame: Frame) -> None:
    """Steer the frame by the master's tables; give it to the port's function if they miss.

    The port's function also gets the frame if the LAG has no usable master any more. Without a
    function (the adapter's manager) the frame is lost. A frame without complete headers is dropped
    and counted as an error of the port.
    """
    hca = adapter.manager.node
    if hca is None:
        return
    master = _master_beside(hca.vhca)
    try:
        is_taken = master is not None and receive.take_beside(master, frame, hca.nic_vport)
    except FrameError:
        hca.nic_vport.received.errors += 1
        return
    if not is_taken:
        receive.arrive(hca, frame)

"""The counter groups of PPCNT: the port's counters, by the names of the standards.

Octets of the physical port include the frame check sequence. A frame's priority is that of its VLAN
tag or its DSCP (``emu.device.port.eth.qos``); RoCE's datagrams count as priority 0. MAC control
frames count only in the counters that the standards have for them.

Source: mlx5_ifc.h: eth_802_3_cntrs_grp_data_layout and its neighbours; IEEE 802.3 5.2.2, RFC 2863,
RFC 2819, RFC 3635.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from emu.device.port.counts import Traffic
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.traffic import FCS_BYTES, Direction
from layouts.enums.regs import CountersGroup
from layouts.regs import port_counters as layout
from layouts.regs.reg import ib_port_cntrs_grp_data_layout

_NS_PER_US: Final = 1000
_COUNTER_BITS: Final = 32

_SIZES: Final = (
    "64octets", "65to127octets", "128to255octets", "256to511octets", "512to1023octets",
    "1024to1518octets", "1519to2047octets", "2048to4095octets", "4096to8191octets",
    "8192to10239octets",
)  # fmt: skip


Ways = tuple[Direction, Direction]
"""Traffic of the physical port, sent and received."""


def _octets(direction: Direction) -> int:
    return direction.octets + FCS_BYTES * direction.packets


def _multicast(direction: Direction) -> int:
    return direction.multicast.packets + direction.rdma_multicast.packets


def _ieee_802_3(port: EthPort, ways: Ways) -> dict[str, int]:
    """Return the counters of IEEE 802.3 5.2.2; octets with frame check sequence."""
    sent, received = ways
    return {
        "a_frames_transmitted_ok": sent.packets,
        "a_frames_received_ok": received.packets,
        "a_octets_transmitted_ok": _octets(sent),
        "a_octets_received_ok": _octets(received),
        "a_multicast_frames_xmitted_ok": _multicast(sent),
        "a_broadcast_frames_xmitted_ok": sent.broadcast.packets,
        "a_multicast_frames_received_ok": _multicast(received),
        "a_broadcast_frames_received_ok": received.broadcast.packets,
        "a_frame_check_sequence_errors": received.fcs_errors,
        "a_frame_too_long_errors": received.too_long,
        "a_mac_control_frames_transmitted": port.flow.sent.control,
        "a_mac_control_frames_received": port.flow.received.control,
        "a_unsupported_opcodes_received": port.flow.received.unknown,
        "a_pause_mac_ctrl_frames_transmitted": port.flow.sent.global_,
        "a_pause_mac_ctrl_frames_received": port.flow.received.global_,
    }


def _rfc_2863(port: EthPort, ways: Ways) -> dict[str, int]:
    """Return the interface counters of RFC 2863 in both directions."""
    values: dict[str, int] = {}
    for name, direction in zip(("out", "in"), ways):
        values |= {
            f"if_{name}_octets": _octets(direction),
            f"if_{name}_ucast_pkts": direction.unicast.packets + direction.rdma_unicast.packets,
            f"if_{name}_multicast_pkts": _multicast(direction),
            f"if_{name}_broadcast_pkts": direction.broadcast.packets,
            f"if_{name}_discards": direction.discards,
            f"if_{name}_errors": direction.errors,
        }
    return values


def _rfc_2819(port: EthPort, ways: Ways) -> dict[str, int]:
    """Return RFC 2819's counters of received frames, by size too."""
    _, received = ways
    return {
        "ether_stats_drop_events": received.discards,
        "ether_stats_octets": _octets(received),
        "ether_stats_pkts": received.packets,
        "ether_stats_broadcast_pkts": received.broadcast.packets,
        "ether_stats_multicast_pkts": _multicast(received),
        "ether_stats_crc_align_errors": received.fcs_errors,
        "ether_stats_oversize_pkts": received.too_long,
        **{f"ether_stats_pkts{name}": n for name, n in zip(_SIZES, received.sizes)},
    }


def _rfc_3635(port: EthPort, ways: Ways) -> dict[str, int]:
    """Return RFC 3635's counters of errors and pause frames."""
    flow = port.flow
    return {
        "dot3stats_fcs_errors": ways[1].fcs_errors,
        "dot3stats_frame_too_longs": ways[1].too_long,
        "dot3control_in_unknown_opcodes": flow.received.unknown,
        "dot3in_pause_frames": flow.received.global_,
        "dot3out_pause_frames": flow.sent.global_,
    }


def _priority(port: EthPort, ways: Ways, priority: int = 0) -> dict[str, int]:
    """Return the counters of one priority: frames, octets and pauses, in both directions.

    Discards and stall warnings are in priority 0 only, as they have no priority.
    """
    values: dict[str, int] = {}
    for name, direction in zip(("tx", "rx"), ways):
        frames = _frames_of(direction, priority)
        values[f"{name}_octets"] = frames.octets + FCS_BYTES * frames.packets
        values[f"{name}_frames"] = frames.packets
    for name, pauses in (("rx", port.flow.received), ("tx", port.flow.sent)):
        values[f"{name}_pause"] = pauses.frames[priority]
        values[f"{name}_pause_duration"] = pauses.duration_ns[priority] // _NS_PER_US
    values["rx_pause_transition"] = port.flow.received.transitions[priority]
    if not priority:
        values["rx_discards"] = ways[1].discards
        values["device_stall_minor_watermark_cnt"] = port.flow.warnings
        values["device_stall_critical_watermark_cnt"] = port.flow.storms
    return values


def _frames_of(direction: Direction, priority: int) -> Traffic:
    """Return the traffic of one priority; priority 0 is the total without all others."""
    if priority:
        return direction.priorities.get(priority, Traffic())
    others = direction.priorities.values()
    return Traffic(
        direction.packets - sum(other.packets for other in others),
        direction.octets - sum(other.octets for other in others),
    )


def _physical(port: EthPort, ways: Ways) -> dict[str, int]:
    return {"link_down_events": port.link_downed}


def _no_counters(_port: EthPort, _ways: Ways) -> dict[str, int]:
    """Return no counters: no receive buffer ever fills, and no bit is in error or corrected."""
    return {}


def _infiniband(port: EthPort, ways: Ways) -> dict[str, int]:
    """Return counters of ``ports/1/counters`` besides the traffic (hw/mad.c: pma_cnt_assign).

    A RoCE port has no virtual lanes and no InfiniBand link errors.
    """
    return {"link_downed_counter": port.link_downed}


class CounterGroup(NamedTuple):
    """A group: its layout, and a function that returns the counters that may differ from 0."""

    layout: type[Any]
    values: Callable[[EthPort, Ways], dict[str, int]]


GROUPS: Final[Mapping[int, CounterGroup]] = {
    CountersGroup.IEEE_802_3: CounterGroup(layout.eth_802_3_cntrs_grp_data_layout, _ieee_802_3),
    CountersGroup.RFC_2863: CounterGroup(layout.eth_2863_cntrs_grp_data_layout, _rfc_2863),
    CountersGroup.RFC_2819: CounterGroup(layout.eth_2819_cntrs_grp_data_layout, _rfc_2819),
    CountersGroup.RFC_3635: CounterGroup(layout.eth_3635_cntrs_grp_data_layout, _rfc_3635),
    CountersGroup.ETHERNET_EXTENDED: CounterGroup(
        layout.eth_extended_cntrs_grp_data_layout, _no_counters
    ),
    CountersGroup.PER_TRAFFIC_CLASS: CounterGroup(
        layout.eth_per_tc_prio_grp_data_layout, _no_counters
    ),
    CountersGroup.PER_TRAFFIC_CLASS_CONGESTION: CounterGroup(
        layout.eth_per_tc_congest_prio_grp_data_layout, _no_counters
    ),
    CountersGroup.PER_PRIORITY: CounterGroup(layout.eth_per_prio_grp_data_layout, _priority),
    CountersGroup.PHYSICAL_LAYER: CounterGroup(layout.phys_layer_cntrs, _physical),
    CountersGroup.PHYSICAL_LAYER_STATISTICAL: CounterGroup(
        layout.phys_layer_statistical_cntrs, _no_counters
    ),
    CountersGroup.INFINIBAND_PORT: CounterGroup(ib_port_cntrs_grp_data_layout, _infiniband),
}
"""The supported groups by ppcnt_reg.grp."""


def read(port: EthPort, ways: Ways, group: int, priority: int, *, clear: bool) -> bytes:
    """Return a group's counters since the last clear, as ppcnt_reg's counter set.

    ``clear`` makes the present values the new base, for this group and priority only. ``group``
    must be one of GROUPS (KeyError), ``priority`` below ``emu.device.port.eth.qos.PRIORITIES``.
    Counters of less than 32 bits stop at their maximum.
    """
    prm, values = GROUPS[group]
    if group == CountersGroup.PER_PRIORITY:
        key, now = (group, priority), _priority(port, ways, priority)
    else:
        key, now = (group, 0), values(port, ways)
    base = port.ppcnt_base.get(key, {})
    view = prm.new()
    short = {one.name: (1 << one.width) - 1 for one in prm.fields if one.width < _COUNTER_BITS}
    for name, value in now.items():
        value -= base.get(name, 0)
        _put(view, name, min(value, short[name]) if name in short else value)
    if clear:
        port.ppcnt_base[key] = now
    return bytes(view)


def _put(view: object, name: str, value: int) -> None:
    """Store a counter: in one field modulo 2**32, or in two as ``_high`` and ``_low``."""
    if hasattr(view, name):
        setattr(view, name, value & 0xFFFFFFFF)
    else:
        setattr(view, f"{name}_high", value >> 32 & 0xFFFFFFFF)
        setattr(view, f"{name}_low", value & 0xFFFFFFFF)

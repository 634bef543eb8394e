"""A second opinion about flow steering: every entry of every table tried in turn, nothing kept.

It takes a packet's fields from the parts that the packet was built of, not from its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.device.objects.eth.flow.action import FteVerdict
from emu.device.objects.eth.flow.table import Miss
from emu.driver.ethernet.frames import MACS, TCP, UDP


def fields_of(packet):
    """The packet's fields by name; those that it does not have are absent."""
    found = {
        "dmac_47_16": int.from_bytes(MACS[:4], "big"),
        "dmac_15_0": int.from_bytes(MACS[4:6], "big"),
        "smac_47_16": int.from_bytes(MACS[6:10], "big"),
        "smac_15_0": int.from_bytes(MACS[10:], "big"),
        "ethertype": 0x800 if packet.version == 4 else 0x86DD,
        "ip_version": packet.version,
        "ip_protocol": packet.protocol,
        "ip_dscp": packet.tos >> 2,
        "ip_ecn": packet.tos & 3,
        "frag": int(bool(packet.fragment)),
        "ttl_hoplimit": 64,
        "src_ipv4_src_ipv6": int.from_bytes(packet.source, "big"),
        "dst_ipv4_dst_ipv6": int.from_bytes(packet.destination, "big"),
        "l4_type": 0,
        "first_vid": 0,
        "first_prio": 0,
        "first_cfi": 0,
        "svlan_tag": 0,
        "cvlan_tag": 0,
    }
    if packet.version == 4:
        found["ipv4_ihl"] = 5 + len(packet.extra) // 4
    if packet.tags:
        tpid, tci = packet.tags[0]
        found |= {"first_prio": tci >> 13, "first_cfi": tci >> 12 & 1, "first_vid": tci & 0xFFF}
        found["cvlan_tag" if tpid == 0x8100 else "svlan_tag"] = 1
    if not packet.fragment:
        found |= _transport(packet)
    return found


def _transport(packet):
    name = {TCP: "tcp", UDP: "udp"}.get(packet.protocol)
    if name is None:
        return {}
    found = {
        f"{name}_sport": int.from_bytes(packet.ports[:2], "big"),
        f"{name}_dport": int.from_bytes(packet.ports[2:], "big"),
        "l4_type": 1 if name == "tcp" else 2,
    }
    return found | ({"tcp_flags": packet.flags & 0x1FF} if name == "tcp" else {})


@dataclass
class Entry:
    masks: dict
    values: dict
    action: tuple
    """Verdict, destinations (models of tables, or anything), tag, names of counters."""

    def matches(self, fields):
        if "cvlan_tag" in self.masks and "svlan_tag" not in self.masks and fields["svlan_tag"]:
            return False
        return all(
            name in fields and fields[name] & mask == self.values.get(name, 0) & mask
            for name, mask in self.masks.items()
        )


@dataclass
class Table:
    level: int
    miss: object
    entries: dict = field(default_factory=dict)


def outcome(root, fields):
    """(deliveries, counters) sorted, and flags; ``fields`` are those of a packet."""
    flags = set()
    result = {"deliver": [], "count": [], "flags": flags}
    if root is None:
        flags.add("missed")
    else:
        _visit(root, fields, result, 0)
    return sorted(result["deliver"]), sorted(result["count"]), flags


def _visit(table, fields, result, tag):
    for index in sorted(table.entries):
        if table.entries[index].matches(fields):
            return _act(table.entries[index].action, fields, result, tag)
    if isinstance(table.miss, Table):
        return _visit(table.miss, fields, result, tag)
    return result["flags"].add("switched" if table.miss is Miss.SWITCH_DOMAIN else "missed")


def _act(action, fields, result, before):
    verdict, destinations, tag, counters = action
    tag = tag or before
    result["count"] += counters
    if verdict is FteVerdict.ALLOW:
        result["flags"].add("allowed")
    for target in destinations:
        if isinstance(target, Table):
            _visit(target, fields, result, tag)
        else:
            result["deliver"].append((target, tag))

"""A subnet manager for tests: it finds all nodes, gives them LIDs, and sets shortest ways."""

from __future__ import annotations

from dataclasses import dataclass, field

from helpers.net.smi import Smi
from layouts.enums.cmd import Op
from layouts.enums.vport import PortState
from layouts.wire.mads import (
    DIRECTION,
    Method,
    NodeType,
    SmpAttr,
    linear_forw_table,
    node_info,
    port_info,
    smp,
    switch_info,
)

SM_LID = 1


@dataclass
class Found:
    """A node of the subnet, and the directed route to it."""

    route: tuple[int, ...]
    info: object
    lid: int
    peers: dict[int, int] = field(default_factory=dict)
    """The GUID of the node behind each port."""


class SmallManager:
    """Works through the QP0 of a node of the subnet, and MAD_IFC for the node's own port."""

    def __init__(self, node):
        self.node = node
        self.smi = Smi(node)
        self.found = {}

    def ask(self, attr, *route, method=Method.GET, attr_mod=0, data=b""):
        """The response to an SMP along a route."""
        fields = {"method": method, "attr_mod": attr_mod, "data": data}
        if route:
            answer = self.smi.ask(attr, *route, **fields)
            assert answer.status & ~DIRECTION == 0, f"{attr!r} {attr_mod:#x} of {route}"
            return answer
        mad = self.smi.request(attr, **fields)
        out = self.node.driver.must(Op.MAD_IFC, port=1, mad=bytes(mad))
        answer = smp.view(bytearray(out.response_mad_packet))
        assert answer.status == 0, f"{attr!r} of the own port"
        return answer

    def sweep(self):
        """Find all nodes, then set them up."""
        self.found = {}
        self._find((), 0, None)
        for one in self.found.values():
            self._give_lid(one)
        for one in self.found.values():
            if one.info.node_type == NodeType.SWITCH:
                self._set_ways(one)
        for state in (PortState.ARMED, PortState.ACTIVE):
            for one in self.found.values():
                self._bring(one, state)
        return self

    def _find(self, route, behind, by):
        info = node_info.view(self.ask(SmpAttr.NODE_INFO, *route).data)
        known = self.found.get(info.node_guid)
        if by is not None:
            by.peers[behind] = info.node_guid
        if known is not None:
            return
        one = self.found[info.node_guid] = Found(route, info, len(self.found) + SM_LID)
        ports = range(1, info.num_ports + 1) if info.node_type == NodeType.SWITCH else ()
        for port in ports if route else (1,):
            there = port_info.view(self.ask(SmpAttr.PORT_INFO, *route, attr_mod=port).data)
            if there.port_state > PortState.DOWN:
                self._find((*route, port), port, one)

    def _give_lid(self, one):
        is_switch = one.info.node_type == NodeType.SWITCH
        port = 0 if is_switch else one.info.local_port_num
        info = port_info.view(
            bytearray(self.ask(SmpAttr.PORT_INFO, *one.route, attr_mod=port).data)
        )
        info.assign({"lid": one.lid, "sm_lid": SM_LID, "port_state": 0, "port_physical_state": 0})
        self._set_port(one, port, info)

    def _set_port(self, one, port, info):
        self.ask(SmpAttr.PORT_INFO, *one.route, method=Method.SET, attr_mod=port, data=bytes(info))

    def _set_ways(self, one):
        first = {}  # by GUID: the port by which the shortest way begins
        todo = [(guid, port) for port, guid in one.peers.items()]
        while todo:
            guid, port = todo.pop(0)
            if guid in first or guid == one.info.node_guid:
                continue
            first[guid] = port
            todo += [(further, port) for further in self.found[guid].peers.values()]
        table = [255] * 64
        table[one.lid] = 0
        for guid, port in first.items():
            table[self.found[guid].lid] = port
        block = bytes(linear_forw_table.new(port=table))
        self.ask(SmpAttr.LINEAR_FORW_TABLE, *one.route, method=Method.SET, data=block)
        info = switch_info.view(bytearray(self.ask(SmpAttr.SWITCH_INFO, *one.route).data))
        info.assign({"linear_fdb_top": 63, "port_state_change": 1})
        self.ask(SmpAttr.SWITCH_INFO, *one.route, method=Method.SET, data=bytes(info))

    def _bring(self, one, state):
        is_switch = one.info.node_type == NodeType.SWITCH
        for port in range(1, one.info.num_ports + 1) if is_switch else (one.info.local_port_num,):
            data = self.ask(SmpAttr.PORT_INFO, *one.route, attr_mod=port).data
            info = port_info.view(bytearray(data))
            if info.port_state in (PortState.INIT, PortState.ARMED):
                info.assign({"port_state": state, "port_physical_state": 0})
                self._set_port(one, port, info)

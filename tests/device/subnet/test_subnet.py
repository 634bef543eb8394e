"""Two functions at different leaves of a subnet from a file, which a manager sets up by QP0."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.net.small_manager import SmallManager
from helpers.net.two_leaves import LEAF0, LEAF1

from emu.device.engine import lifecycle
from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.driver.nodes.cable import DueTimers
from emu.driver.nodes.two_nodes import GUID, brought_up
from emu.driver.verbs.connect import connect
from emu.driver.verbs.gsi import Gsi
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.control.server import ControlRequestError
from emu.server.net.ib.subnet.fabric import SubnetFabric
from emu.server.net.ib.subnet.topology import parse
from emu.server.service import subnet_methods
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.regs import RegId
from layouts.enums.vport import CapMask1, PhysState, PortState
from layouts.wire.mads import (
    MadStatus,
    Method,
    PmaAttr,
    SmaTrap,
    SmpAttr,
    local_change_notice,
    pma_portcounters,
    port_info,
    smp,
)

FAT_TREE = Path(__file__).parents[3] / "examples/subnet/fat-tree.py"


def lids(nodes):
    return [node.hca.ib.lid for node in nodes]


def test_ports_wait_for_their_manager(nodes):
    for node in nodes:
        assert (node.hca.ib.state, node.hca.ib.lid) == (PortState.INIT, 0)
        assert (node.hca.ib.has_link, node.hca.ib.is_up) == (True, False)


def test_a_sweep_finds_all_and_gives_lids(nodes, manager, subnet):
    manager.sweep()
    assert len(manager.found) == 7
    assert [node.hca.ib.state for node in nodes] == [PortState.ACTIVE] * 2
    assert all(lids(nodes))
    assert nodes[1].hca.ib.sm_lid == nodes[0].hca.ib.lid
    assert nodes[1].hca.ib.is_up


def test_the_driver_hears_of_lid_and_state(nodes, manager):
    eqn = nodes[1].driver.create_eq(events=[EventType.PORT_CHANGE])
    manager.sweep()
    heard = [entry.sub_type for entry in nodes[1].driver.eqs[eqn].drain()]
    assert heard == [PortChange.LID, PortChange.ACTIVE]
    context = nodes[1].driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    assert (context.lid, context.sm_lid) == (nodes[1].hca.ib.lid, nodes[0].hca.ib.lid)
    assert (context.port_state, context.vport_state) == (PortState.ACTIVE, PortState.ACTIVE)


def exchange(nodes, count=3):
    one, two = (node.queue_pair() for node in nodes)
    connect(one, two)
    source, target = nodes[0].region(4096), nodes[1].region(4096)
    source.write(b"over two hops")
    for _ in range(count):
        two.post_recv(target.sge(0, 64))
        one.send(source.sge(0, 13))
    nodes[0].settle()
    assert target.read(0, 13) == b"over two hops"
    return one, two


def counters(nodes, lid, port):
    gsi = Gsi(nodes[0])
    answer = gsi.pma(Method.GET, PmaAttr.PORT_COUNTERS, lid, pma_portcounters, port_select=port)
    gsi.qp.destroy()
    assert answer.mad_hdr.status == 0
    return pma_portcounters.view(answer.data)


def test_messages_pass_and_switches_count_them(nodes, manager, subnet):
    manager.sweep()
    before = counters(nodes, lid_of(manager, subnet, LEAF1), 1).port_xmit_packets
    exchange(nodes)
    after = counters(nodes, lid_of(manager, subnet, LEAF1), 1)
    assert after.port_xmit_packets == before + 3
    assert after.port_rcv_packets >= 1


def lid_of(manager, subnet, number):
    return manager.found[subnet.cables.nodes[number].line.guid].lid


def test_without_a_way_packets_are_dropped_and_counted(nodes, manager, subnet):
    manager.sweep()
    leaf = subnet.cables.nodes[LEAF0]
    leaf.tables.linear[nodes[1].hca.ib.lid] = 255
    subnet.cables.generation += 1
    one, two = (node.queue_pair() for node in nodes)
    connect(one, two)
    one.send(nodes[0].region(64).sge(0, 8))
    nodes[0].settle()
    assert two.cq.drain() == []
    errors = counters(nodes, leaf.ports[0].info.lid, 1).port_rcv_switch_relay_errors
    assert errors >= 1


def test_a_cut_is_told_and_a_new_sweep_finds_another_way(nodes, manager, subnet):
    manager.sweep()
    used = subnet.cables.nodes[LEAF0].tables.linear[nodes[1].hca.ib.lid]
    subnet.cables.cut(LEAF0, used, is_cut=True)
    traps = [mad for mad in manager.smi.smps() if mad.method == Method.TRAP]
    assert traps
    assert traps[0].attr_id == SmpAttr.NOTICE
    for mad in traps:
        mad.method = Method.TRAP_REPRESS
        manager.smi.post(mad, int.from_bytes(mad.data[6:8], "big"))
    assert subnet.cables.nodes[LEAF0].tables.info.port_state_change == 1
    manager.sweep()
    assert subnet.cables.nodes[LEAF0].tables.linear[nodes[1].hca.ib.lid] != used
    assert counters(nodes, lid_of(manager, subnet, LEAF0), used).link_downed_counter == 1
    exchange(nodes)


def test_a_cut_at_the_function_takes_its_link(nodes, manager, subnet):
    manager.sweep()
    subnet.cables.cut(LEAF1, 1, is_cut=True)
    assert (nodes[1].hca.ib.state, nodes[1].hca.ib.phys_state) == (
        PortState.DOWN,
        PhysState.POLLING,
    )
    subnet.cables.cut(LEAF1, 1, is_cut=False)
    assert nodes[1].hca.ib.state is PortState.INIT
    assert not nodes[1].hca.ib.is_up


@pytest.mark.parametrize("change", [lifecycle.set_link, lifecycle.set_admin])
@pytest.mark.parametrize("is_swept", [False, True])
def test_a_link_that_comes_back_is_there_at_both_ends(nodes, manager, subnet, change, is_swept):
    """Also where no manager has activated it, before or after it was lost."""
    if is_swept:
        manager.sweep()
    far = subnet.cables.nodes[LEAF1].ports[1].info
    change(nodes[1].hca, up=False)
    assert nodes[1].hca.ib.state == far.port_state == PortState.DOWN
    change(nodes[1].hca, up=True)
    assert nodes[1].hca.ib.state == far.port_state == PortState.INIT
    manager.sweep()
    exchange(nodes)


def test_a_driver_enables_its_port_while_the_other_end_is_disabled(nodes, manager, subnet):
    manager.sweep()
    one = manager.found[subnet.cables.nodes[LEAF1].line.guid]
    info = port_info.view(bytearray(manager.ask(SmpAttr.PORT_INFO, *one.route, attr_mod=1).data))
    lifecycle.set_admin(nodes[1].hca, up=False)
    info.port_state, info.port_physical_state = 0, PhysState.DISABLED
    manager._set_port(one, 1, info)
    lifecycle.set_admin(nodes[1].hca, up=True)
    assert nodes[1].hca.ib.state == PortState.DOWN
    info.port_physical_state = PhysState.POLLING
    manager._set_port(one, 1, info)
    assert nodes[1].hca.ib.state == PortState.INIT


def test_a_manager_sets_a_port_down_and_it_trains_again(nodes, manager, subnet):
    manager.sweep()
    one = manager.found[subnet.cables.nodes[LEAF1].line.guid]
    data = manager.ask(SmpAttr.PORT_INFO, *one.route, attr_mod=1).data
    info = port_info.view(bytearray(data))
    info.port_state, info.port_physical_state = PortState.DOWN, 0
    manager._set_port(one, 1, info)
    assert nodes[1].hca.ib.state is PortState.INIT
    info.port_state, info.port_physical_state = 0, PhysState.DISABLED
    manager._set_port(one, 1, info)
    assert nodes[1].hca.ib.state is PortState.DOWN
    info.port_physical_state = PhysState.POLLING
    manager._set_port(one, 1, info)
    assert nodes[1].hca.ib.state is PortState.INIT


def test_a_manager_sets_the_widths_and_speeds_of_a_function(manager):
    manager.sweep()
    one = manager.found[GUID + 1]

    def read():
        data = manager.ask(SmpAttr.PORT_INFO, *one.route, attr_mod=1).data
        return port_info.view(bytearray(data))

    info = read()
    chosen = {"link_width_enabled": 1, "link_speed_enabled": 3, "link_speed_ext_enabled": 1}
    info.assign({**chosen, "port_state": 0, "port_physical_state": 0})
    manager._set_port(one, 1, info)
    for _ in range(2):
        assert {name: getattr(read(), name) for name in chosen} == chosen
    unsupported = {
        "link_width_enabled": 0x20,
        "link_speed_enabled": 8,
        "link_speed_ext_enabled": 0x10,
    }
    for name, value in unsupported.items():
        info = read()
        info.assign({name: value, "port_state": 0, "port_physical_state": 0})
        answer = manager.smi.ask(
            SmpAttr.PORT_INFO, *one.route, method=Method.SET, attr_mod=1, data=bytes(info)
        )
        assert answer.status & 0xFF == MadStatus.INVALID_ATTRIB_VALUE
        assert {name: getattr(read(), name) for name in chosen} == chosen


def test_a_manager_names_a_port_and_a_block_of_pkeys(manager):
    manager.sweep()
    one = manager.found[GUID + 1]
    found = manager.ask(SmpAttr.PKEY_TABLE, *one.route, attr_mod=1 << 16)
    assert (found.status & 0xFF, found.data[:2]) == (MadStatus.SUCCESS, b"\xff\xff")


def test_a_reset_function_starts_without_a_lid(nodes, manager, subnet):
    manager.sweep()
    nodes[1].driver.bar.function.reset()
    plug = subnet.plugs[GUID + 1]
    assert plug._hca.ib.state is PortState.INIT
    assert plug._hca.ib.lid == 0


def answers(smi):
    """Responses; traps come as well."""
    return [mad for mad in smi.smps() if mad.method != Method.TRAP]


def test_smps_with_a_wrong_mkey_get_no_answer(nodes, manager, subnet):
    manager.sweep()
    leaf = subnet.cables.nodes[LEAF0]
    leaf.ports[0].info.assign({"mkey": 5, "mkey_protect_bits": 1})
    smi = manager.smi
    before = bytes(leaf.ports[1].info)
    request = smi.request(SmpAttr.PORT_INFO, 1, method=Method.SET, attr_mod=1, data=before)
    smi.post(request, 0xFFFF)
    assert answers(smi) == []
    assert leaf.ports[0].info.mkey_violations == 1
    hidden = smi.ask(SmpAttr.PORT_INFO, 1, attr_mod=0)
    assert port_info.view(hidden.data).mkey == 0
    shown = smi.ask(SmpAttr.PORT_INFO, 1, attr_mod=0, mkey=5)
    assert port_info.view(shown.data).mkey == 5


def test_a_driver_may_ask_its_port_without_the_mkey(nodes, manager, clock):
    """MAD_IFC's op_mod (hw/mad.c:mlx5_MAD_IFC): bit 0 is set when the driver asks for itself."""
    manager.sweep()
    port = nodes[0].hca.ib
    port.managed.info.assign({"mkey": 5, "mkey_protect_bits": 2, "mkey_lease_period": 3})

    def status(op_mod, **fields):
        mad = bytes(manager.smi.request(SmpAttr.PORT_INFO, attr_mod=1, **fields))
        out = nodes[0].driver.must(Op.MAD_IFC, op_mod=op_mod, port=1, mad=mad)
        return smp.view(out.response_mad_packet).status

    assert status(3) == status(1) == 0
    assert port.managed.info.mkey_violations == 0
    assert status(0) == status(2) == MadStatus.UNSUPPORTED_METHOD_ATTRIB
    assert port.managed.info.mkey_violations == 2
    clock.advance(2_900_000_000)
    assert status(1) == 0
    clock.advance(100_000_000)
    assert status(0) == 0, "who does not know the key renews no lease"


def test_an_mkeys_lease_ends_unless_who_knows_it_comes_back(nodes, manager, subnet, clock):
    """Whoever comes later may read the key, and with it set the port (IBTA 14.2.4.2)."""
    manager.sweep()
    leaf, smi = subnet.cables.nodes[LEAF0], manager.smi
    leaf.ports[0].info.assign({"mkey": 5, "mkey_protect_bits": 2, "mkey_lease_period": 3})

    def is_answered(mkey):
        smi.post(smi.request(SmpAttr.PORT_INFO, 1, attr_mod=0, mkey=mkey), 0xFFFF)
        return [port_info.view(mad.data).mkey for mad in answers(smi)]

    assert is_answered(4) == []
    clock.advance(2_900_000_000)
    assert is_answered(5) == [5]
    clock.advance(2_900_000_000)
    assert is_answered(4) == []
    clock.advance(2_999_999_999)
    assert is_answered(4) == []
    clock.advance(1)
    assert is_answered(4) == [5]
    assert leaf.ports[0].info.mkey_protect_bits == 0


# -- traps of functions


def traps(manager):
    """Those that have come since the last look, as trap 144 has them."""
    mads = [mad for mad in manager.smi.smps() if mad.method == Method.TRAP]
    return [(mad, local_change_notice.view(mad.data)) for mad in mads]


def described(node, text):
    """The driver tells the port's description (hw/main.c:mlx5_ib_modify_device)."""
    node.driver.write_register(RegId.NODE_DESC, text.ljust(64, b"\0"))


@pytest.mark.parametrize("number", [0, 1], ids=["own", "other"])
def test_a_new_node_description_is_told_until_the_manager_has_heard(nodes, manager, clock, number):
    manager.sweep()
    traps(manager)
    described(nodes[number], b"new name")
    ((mad, told),) = traps(manager)
    assert (told.trap_num, told.lid) == (SmaTrap.LOCAL_CHANGE, nodes[number].hca.ib.lid)
    assert (told.node_description_change, told.other_local_changes) == (1, 1)
    clock.advance(1_000_000_000)
    ((again, _),) = traps(manager)
    assert again.tid == mad.tid
    mad.method = Method.TRAP_REPRESS
    out = nodes[number].driver.must(Op.MAD_IFC, port=1, mad=bytes(mad))
    assert smp.view(bytearray(out.response_mad_packet)).status
    clock.advance(20_000_000_000)
    assert traps(manager) == []


def test_new_capabilities_are_told(nodes, manager):
    """opensm in a guest sets IsSM of its port."""
    manager.sweep()
    traps(manager)
    context = {"cap_mask1": CapMask1.SM, "cap_mask1_field_select": CapMask1.SM}
    nodes[1].driver.must(Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=context)
    ((_, told),) = traps(manager)
    assert (told.node_description_change, told.other_local_changes) == (0, 0)
    assert told.cap_mask & CapMask1.SM
    assert told.cap_mask & CapMask1.CAP_MASK_NOTICE_SUP


def test_nobody_is_told_without_a_manager_or_a_change(nodes, manager, clock):
    described(nodes[1], b"early")
    manager.sweep()
    traps(manager)
    described(nodes[1], b"early")
    clock.advance(20_000_000_000)
    assert traps(manager) == []


# -- what the control socket does


def test_cables_are_shown_cut_and_mended(nodes, manager, subnet):
    manager.sweep()
    about = json.loads(b"".join(subnet_methods.show(subnet)))["nodes"]
    assert [node["name"] for node in about if node["is_function"]] == ["function0", "function1"]
    assert about[LEAF1]["lid"] == lid_of(manager, subnet, LEAF1)
    assert about[LEAF1]["ports"][0] == {
        "port": 1, "state": "ACTIVE", "peer": "function1", "peer_port": 1, "is_cut": False,
    }  # fmt: skip
    for is_cut, state in ((True, PortState.DOWN), (False, PortState.INIT)):
        subnet_methods.cut(subnet, {"node": "leaf1", "port": 1, "is_cut": is_cut})
        assert nodes[1].hca.ib.state is state


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "node must be a name"),
        ({"node": "leaf0", "port": "1", "is_cut": True}, "node must be a name"),
        ({"node": "leaf0", "port": True, "is_cut": True}, "node must be a name"),
        ({"node": "x", "port": 1, "is_cut": True}, "no node 'x'"),
        ({"node": "leaf0", "port": 2, "is_cut": True}, "no cable at port 2"),
        ({"node": "leaf0", "port": 0, "is_cut": True}, "no cable at port 0"),
        ({"node": "leaf0", "port": 1 << 70, "is_cut": True}, "no cable at port"),
    ],
)
def test_wrong_cuts(subnet, params, why):
    with pytest.raises(ControlRequestError, match=why):
        subnet_methods.cut(subnet, params)


def test_a_thousand_adapters_are_swept(clock, model):
    """A fat tree of two levels: the manager finds each node once."""
    tree = subprocess.run(
        [sys.executable, FAT_TREE, "42"], capture_output=True, text=True, check=True
    ).stdout
    subnet = SubnetFabric(clock, parse(tree), [GUID])
    (plug,) = subnet.plugs.values()
    function = Function(model, HcaOptions(guid=GUID), TABLE, Memory(), IrqList(), clock, plug)
    manager = SmallManager(*brought_up(Node, [function], DueTimers(clock)))
    manager._find((), 0, None)
    assert len(manager.found) == 42 + 12 + 42 * 24

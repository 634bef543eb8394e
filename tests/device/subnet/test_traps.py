"""Traps of errors and wrong M_Keys, and plans that cut cables, in a subnet of a file."""

import itertools

import pytest
from helpers.net.two_leaves import LEAF0, LEAF1, OTHER, SPINE0

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.driver.verbs.gsi import Gsi
from layouts.enums.cmd import Op
from layouts.enums.regs import CountersGroup, RegId
from layouts.enums.vport import PortState
from layouts.regs import reg
from layouts.wire.mads import (
    Method,
    NodeType,
    NoticeType,
    PmaAttr,
    SmaTrap,
    SmpAttr,
    bad_mkey_notice,
    pma_portcounters,
    port_notice,
)

SECOND = 1_000_000_000
PERMISSIVE = 0xFFFF


@pytest.fixture
def fired():
    return []


@pytest.fixture
def injectors(nodes, fired):
    """Of both functions."""
    injectors = []
    for node in nodes:
        function = node.driver.bar.function
        injectors.append(Injector(function, sink=fired.append))
        function.use_faults(injectors[-1])
    return injectors


@pytest.fixture
def plan(manager, injectors):
    """Loads a rule's lines at a function of a subnet that has been swept."""
    manager.sweep()
    manager.smi.smps()

    numbers = itertools.count()

    def load_it(text, number=0):
        name = f"rule{next(numbers)}"
        injectors[number].load(load(f'[[rule]]\nname = "{name}"\npoint = "load"\n{text}'))

    return load_it


def traps(manager, notice=port_notice):
    """Those that have come since the last look."""
    return [notice.view(mad.data) for mad in manager.smi.smps() if mad.method == Method.TRAP]


def lid(subnet, number, port=0):
    return subnet.cables.nodes[number].ports[port].info.lid


def pma(nodes, of_lid, port, method=Method.GET, **fields):
    gsi = Gsi(nodes[0])
    attr = PmaAttr.PORT_COUNTERS
    answer = gsi.pma(method, attr, of_lid, pma_portcounters, port_select=port, **fields)
    gsi.qp.destroy()
    return pma_portcounters.view(answer.data)


def errors(node, port, kind, count=1):
    return (
        f'action = "port_errors"\nnode = "{node}"\nport = {port}\nkind = "{kind}"\ncount = {count}'
    )


CASES = {
    "symbols": (SmaTrap.LINK_INTEGRITY, "local_link_integrity_errors"),
    "overrun": (SmaTrap.BUFFER_OVERRUN, "excessive_buffer_overrun_errors"),
}


@pytest.mark.parametrize("kind", CASES)
def test_errors_above_the_threshold_are_told(nodes, manager, subnet, plan, kind):
    """The manager sets thresholds (PortInfo.LocalPhyErrors, OverrunErrors)."""
    trap, excess = CASES[kind]
    leaf = subnet.cables.nodes[LEAF0]
    leaf.ports[0].info.assign({"local_phy_errors": 8, "overrun_errors": 8})
    plan(errors("leaf0", 3, kind, 8))
    assert traps(manager) == []
    plan(errors("leaf0", 3, kind, 9))
    (told,) = traps(manager)
    assert (told.trap_num, told.trap_type) == (trap, NoticeType.URGENT)
    assert (told.producer_type, told.port_num) == (NodeType.SWITCH, 3)
    assert told.lid == told.issuer_lid == lid(subnet, LEAF0)
    counted = pma(nodes, lid(subnet, LEAF0), 3)
    assert counted.port_rcv_errors == 17
    assert counted.symbol_error_counter == (17 if kind == "symbols" else 0)
    assert getattr(counted, excess) == 1
    pma(nodes, lid(subnet, LEAF0), 3, Method.SET, counter_select=0xFFFF)
    assert getattr(pma(nodes, lid(subnet, LEAF0), 3), excess) == 0


def test_a_link_that_recovers_is_told(nodes, manager, subnet, plan):
    plan(errors("spine0", 1, "watchdog"))
    (told,) = traps(manager)
    assert (told.trap_num, told.port_num) == (SmaTrap.FLOW_CONTROL_WATCHDOG, 1)
    assert pma(nodes, lid(subnet, SPINE0), 1).link_error_recovery_counter == 1
    assert subnet.cables.nodes[SPINE0].ports[1].state is PortState.ACTIVE


@pytest.mark.parametrize("kind", ["symbols", "overrun", "watchdog"])
def test_no_errors_are_neither_told_nor_counted(nodes, manager, subnet, plan, kind):
    plan(errors("spine0", 1, kind, 0))
    assert traps(manager) == []
    counted = pma(nodes, lid(subnet, SPINE0), 1)
    assert (counted.port_rcv_errors, counted.link_error_recovery_counter) == (0, 0)


def test_a_functions_errors_are_told_and_counted_by_it(nodes, manager, subnet, plan):
    plan(errors("function1", 1, "symbols", 20))
    (told,) = traps(manager)
    assert (told.trap_num, told.producer_type) == (
        SmaTrap.LINK_INTEGRITY, NodeType.CHANNEL_ADAPTER,
    )  # fmt: skip
    assert (told.lid, told.port_num) == (nodes[1].hca.ib.lid, 1)
    counted = pma(nodes, nodes[1].hca.ib.lid, 1)
    assert (counted.symbol_error_counter, counted.local_link_integrity_errors) == (20, 1)
    driver = nodes[1].driver

    def group(**fields):
        read = driver.read_register(
            RegId.PPCNT, reg.ppcnt_reg, grp=CountersGroup.INFINIBAND_PORT, **fields
        )
        return reg.ib_port_cntrs_grp_data_layout.view(read.counter_set)

    shown = group(clr=1)
    assert (shown.symbol_error_counter, shown.port_rcv_errors) == (20, 20)
    assert shown.link_overrun_errors == 0x10
    assert group().symbol_error_counter == 0


def test_counters_stop_at_their_end(nodes, subnet, plan):
    for _ in range(20):
        plan(errors("function1", 1, "overrun", 1000))
    assert pma(nodes, nodes[1].hca.ib.lid, 1).excessive_buffer_overrun_errors == 15


def test_a_second_error_waits_for_the_repress_of_the_first(manager, subnet, plan, clock):
    plan(errors("leaf0", 3, "watchdog"))
    (mad,) = [mad for mad in manager.smi.smps() if mad.method == Method.TRAP]
    plan(errors("leaf0", 3, "watchdog"))
    assert traps(manager) == []
    clock.advance(SECOND)
    (again,) = [mad for mad in manager.smi.smps() if mad.method == Method.TRAP]
    assert again.tid != mad.tid
    again.method = Method.TRAP_REPRESS
    manager.smi.post(again, lid(subnet, LEAF0))
    clock.advance(20 * SECOND)
    assert traps(manager) == []
    plan(errors("leaf0", 3, "watchdog"))
    assert len(traps(manager)) == 1


# -- M_Keys


@pytest.mark.hostile
@pytest.mark.parametrize("place", ["leaf1", "other", "function1"])
def test_a_wrong_mkey_is_told(nodes, manager, subnet, plan, place):
    """From a directed route: the notice has the way back."""
    number, entry = {"leaf1": (LEAF1, 0), "other": (OTHER, 1), "function1": (5, 1)}[place]
    node = subnet.cables.nodes[number]
    node.ports[entry].info.assign({"mkey": 5, "mkey_protect_bits": 1})
    route = {"leaf1": (1, 3, 2), "other": (1, 3, 2, 2), "function1": (1, 3, 2, 1)}[place]
    mad = manager.smi.request(SmpAttr.PORT_INFO, *route, method=Method.SET, attr_mod=7, mkey=4)
    for _ in range(5):
        manager.smi.post(mad, PERMISSIVE)
    (told,) = traps(manager, bad_mkey_notice)
    assert (told.trap_num, told.trap_type) == (SmaTrap.BAD_MKEY, NoticeType.SECURITY)
    assert (told.method, told.attr_id, told.attr_mod) == (Method.SET, SmpAttr.PORT_INFO, 7)
    assert (told.mkey, told.lid, told.dr_slid) == (4, PERMISSIVE, PERMISSIVE)
    assert (told.dr_notice, told.dr_path_truncated, told.dr_hop_count) == (1, 0, len(route))
    ways = {"leaf1": "010103", "other": "01010301", "function1": "01010301"}
    assert told.dr_return_path[: len(route)].hex() == ways[place]
    assert node.ports[entry].info.mkey_violations == 5


def test_by_lid_the_notice_has_the_sender(nodes, manager, subnet, plan):
    subnet.cables.nodes[LEAF1].ports[0].info.assign({"mkey": 5, "mkey_protect_bits": 2})
    mad = manager.smi.request(SmpAttr.NODE_INFO, mkey=4)
    manager.smi.post(mad, lid(subnet, LEAF1))
    (told,) = traps(manager, bad_mkey_notice)
    assert (told.lid, told.dr_notice, told.dr_hop_count) == (nodes[0].hca.ib.lid, 0, 0)


def test_a_read_below_the_second_level_is_no_violation(manager, subnet, plan):
    subnet.cables.nodes[LEAF1].ports[0].info.assign({"mkey": 5, "mkey_protect_bits": 1})
    mad = manager.smi.request(SmpAttr.NODE_INFO, mkey=4)
    manager.smi.post(mad, lid(subnet, LEAF1))
    assert traps(manager, bad_mkey_notice) == []


@pytest.mark.hostile
def test_a_repress_with_a_wrong_mkey_represses_nothing(manager, subnet, plan, clock):
    """As at functions (IBTA 14.2.4): who does not know the key cannot silence a node."""
    plan(errors("leaf0", 3, "watchdog"))
    (mad,) = [mad for mad in manager.smi.smps() if mad.method == Method.TRAP]
    assert mad.mkey == 0, "o14-1: traps carry no M_Key"
    subnet.cables.nodes[LEAF0].ports[0].info.mkey = 5
    mad.method = Method.TRAP_REPRESS
    mad.mkey = 4
    manager.smi.post(mad, lid(subnet, LEAF0))
    told = traps(manager, bad_mkey_notice)
    assert [(one.trap_num, one.method) for one in told] == [(SmaTrap.BAD_MKEY, Method.TRAP_REPRESS)]
    clock.advance(SECOND)
    again = [mad for mad in manager.smi.smps() if mad.method == Method.TRAP]
    assert mad.tid in [one.tid for one in again]
    for one in again:
        one.method, one.mkey = Method.TRAP_REPRESS, 5
        manager.smi.post(one, lid(subnet, LEAF0))
    clock.advance(20 * SECOND)
    assert traps(manager) == []


def test_a_function_takes_a_repress_by_its_driver_with_its_key(nodes, manager, subnet, plan, clock):
    plan(errors("function1", 1, "watchdog"))
    (mad,) = [mad for mad in manager.smi.smps() if mad.method == Method.TRAP]
    mad.method = Method.TRAP_REPRESS
    nodes[1].hca.ib.managed.info.mkey = 5
    nodes[1].driver.must(Op.MAD_IFC, port=1, mad=bytes(mad))
    clock.advance(SECOND)
    assert {one.trap_num for one in traps(manager)} == {
        SmaTrap.FLOW_CONTROL_WATCHDOG, SmaTrap.BAD_MKEY,
    }  # fmt: skip


# -- cables


CUT = 'action = "cable"\nnode = "leaf0"\nport = {port}\n'


def test_a_plan_cuts_a_cable_for_a_while(manager, subnet, plan, clock):
    plan(CUT.format(port=3) + "ms = 2000")
    assert subnet.cables.nodes[LEAF0].ports[3].state is PortState.DOWN
    assert {told.trap_num for told in traps(manager)} == {SmaTrap.LINK_STATE_CHANGE}
    manager.sweep()
    clock.advance(2 * SECOND)
    assert subnet.cables.nodes[LEAF0].ports[3].state is PortState.INIT


def test_a_reset_of_the_function_mends_nothing_earlier(nodes, subnet, plan, clock):
    """The cable is none of the function's."""
    plan(CUT.format(port=3) + "ms = 2000", number=1)
    nodes[1].driver.bar.function.reset()
    assert subnet.cables.nodes[LEAF0].cut == {3}
    clock.advance(2 * SECOND)
    assert subnet.cables.nodes[LEAF0].cut == set()


def test_a_removed_rule_mends_its_cable(nodes, subnet, plan, injectors):
    plan(CUT.format(port=3), number=1)
    nodes[1].driver.bar.function.reset()
    injectors[1].clear()
    assert subnet.cables.nodes[LEAF0].cut == set()


@pytest.mark.parametrize(
    "text",
    [
        CUT.format(port=2), CUT.format(port=200), CUT.format(port=3).replace("leaf0", "x"),
        errors("x", 1, "overrun"), errors("leaf0", 9, "symbols"), errors("leaf0", 4, "watchdog"),
    ],
)  # fmt: skip
def test_what_is_not_there_changes_nothing(subnet, plan, fired, text):
    subnet.cables.cut(LEAF0, 4, is_cut=True)
    plan(text)
    assert [one.without_effect is not None for one in fired] == [True]
    assert subnet.cables.nodes[LEAF0].cut == {4}

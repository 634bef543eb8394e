"""The commands of a LAG: who may send them, when, and what ends it."""

import pytest
from helpers.device.boards import Bonded, remap

from emu.device.models import LINKS
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType, ModifyFlowTable

ACTIVE = 1
NO_LAG, NOT_MINE, WRONG = Status.BAD_RES_STATE_ERR, Status.BAD_OP_ERR, Status.BAD_PARAM_ERR


@pytest.fixture
def bonded(clock):
    return Bonded(clock)


@pytest.fixture
def must(bonded):
    return bonded.master.driver.must


@pytest.fixture
def refused(bonded):
    """A command of the master is refused, and the LAG stays as it was."""

    def check(status, op, node=None, **fields):
        before = bonded.board.lag, _as_it_is(bonded.board.lag)
        answer = (node or bonded.master).driver.command(op, **fields)
        assert answer.status == status
        assert (bonded.board.lag, _as_it_is(bonded.board.lag)) == before

    return check


def _as_it_is(lag):
    return None if lag is None else (lag.remap, lag.has_vports)


def query(node):
    ctx = node.driver.must(Op.QUERY_LAG).ctx
    return ctx.lag_state, ctx.tx_remap_affinity_1, ctx.tx_remap_affinity_2


def test_a_life(bonded, must):
    assert [query(node) for node in (bonded.master, bonded.second)] == [(0, 0, 0)] * 2
    must(Op.CREATE_LAG, ctx=remap(1, 2))
    must(Op.CREATE_VPORT_LAG)
    bonded.modify_lag(2, 2)
    assert [query(node) for node in (bonded.master, bonded.second)] == [(ACTIVE, 2, 2)] * 2
    must(Op.DESTROY_VPORT_LAG)
    must(Op.DESTROY_LAG)
    assert query(bonded.master) == (0, 0, 0)
    bonded.make_lag()


def test_commands_without_a_lag(refused):
    refused(NO_LAG, Op.MODIFY_LAG, field_select=1, ctx=remap(1, 1))
    for op in (Op.DESTROY_LAG, Op.CREATE_VPORT_LAG, Op.DESTROY_VPORT_LAG):
        refused(NO_LAG, op)


def test_commands_in_the_wrong_order(bonded, refused, must):
    must(Op.CREATE_LAG, ctx=remap(1, 2))
    refused(NO_LAG, Op.CREATE_LAG, ctx=remap(1, 2))
    refused(NO_LAG, Op.DESTROY_VPORT_LAG)
    must(Op.CREATE_VPORT_LAG)
    refused(NO_LAG, Op.CREATE_VPORT_LAG)
    refused(NO_LAG, Op.DESTROY_LAG)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "ctx",
    [
        remap(0, 1), remap(1, 0), remap(3, 1), remap(1, 3), remap(15, 15), {},
        remap(1, 2) | {"port_select_mode": 1}, remap(1, 2) | {"port_select_mode": 2},
        remap(1, 2) | {"port_select_mode": 7},
    ],
)  # fmt: skip
def test_what_is_no_lag(refused, ctx):
    refused(WRONG, Op.CREATE_LAG, ctx=ctx)


@pytest.mark.hostile
def test_switches_that_cannot_share(clock):
    """Those of adapters before ConnectX-6 Dx."""
    driver = Bonded(clock, model=LINKS["connectx5"][PortType.ETH]).master.driver
    answer = driver.command(Op.CREATE_LAG, ctx=remap(1, 2) | {"fdb_selection_mode": 1})
    assert answer.status == WRONG


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("select", "ctx"),
    [(0, remap(1, 1)), (2, {"active_port": 1}), (3, remap(1, 1)), (1, remap(0, 1)), (1, {})],
)
def test_what_cannot_be_modified(bonded, refused, select, ctx):
    bonded.make_lag()
    refused(WRONG, Op.MODIFY_LAG, field_select=select, ctx=ctx)


@pytest.mark.hostile
@pytest.mark.parametrize("there_is_one", [False, True])
def test_only_the_first_ports_function_is_the_master(bonded, refused, there_is_one):
    if there_is_one:
        bonded.make_lag()
    for node in (bonded.second, bonded.peer):
        refused(NOT_MINE, Op.CREATE_LAG, node, ctx=remap(1, 2))
        refused(NOT_MINE, Op.MODIFY_LAG, node, field_select=1, ctx=remap(2, 2))
        for op in (Op.DESTROY_LAG, Op.CREATE_VPORT_LAG, Op.DESTROY_VPORT_LAG):
            refused(NOT_MINE, op, node)
    assert query(bonded.peer) == (0, 0, 0)


@pytest.mark.hostile
def test_not_while_the_other_port_has_no_driver(bonded, refused, must):
    bonded.second.driver.must(Op.TEARDOWN_HCA)
    refused(NO_LAG, Op.CREATE_LAG, ctx=remap(1, 2))
    bonded.functions[1].reset()
    refused(NO_LAG, Op.CREATE_LAG, ctx=remap(1, 2))


@pytest.mark.parametrize("number", [0, 1])
def test_one_of_switches_is_not_for_roce(bonded, must, number):
    """An FDB decides about all that its adapter's port carries."""
    driver = (bonded.master, bonded.second)[number].driver
    fdb = Flows(driver, FlowTableType.FDB)
    fdb.set_root(fdb.table(0))
    must(Op.CREATE_LAG, ctx=remap(1, 2))
    assert bonded.board.lag.of_switches
    assert bonded.board.lag_of(bonded.functions[0].hca.vhca) is None


@pytest.mark.parametrize("how", ["teardown", "reset", "crash kernel", "failure"])
def test_it_ends_with_its_master(bonded, how, monkeypatch, caplog):
    bonded.make_lag()
    if how == "teardown":
        bonded.master.driver.must(Op.TEARDOWN_HCA)
    elif how == "crash kernel":
        bonded.master.driver.must(Op.ENABLE_HCA)
    elif how == "reset":
        bonded.functions[0].reset()
    else:
        bonded.master.hca.health.fail()
        caplog.clear()
    assert bonded.board.lag is None
    assert query(bonded.second) == (0, 0, 0)


@pytest.mark.parametrize("how", ["teardown", "reset"])
def test_it_stays_when_the_other_function_goes(bonded, must, how):
    """Its master's driver ends it, and would complain of one that is not there."""
    bonded.make_lag()
    if how == "teardown":
        bonded.second.driver.must(Op.TEARDOWN_HCA)
    else:
        bonded.functions[1].reset()
    bonded.modify_lag(1, 1)
    must(Op.DESTROY_VPORT_LAG)
    must(Op.DESTROY_LAG)


def test_the_table_that_tells_the_ports_apart(bonded, must, refused):
    """As mlx5_ib makes it, in front of the driver's own tables."""
    kind = {"table_type": FlowTableType.NIC_RX}
    last = must(Op.CREATE_FLOW_TABLE, **kind, flow_table_context={"level": 9}).table_id
    context = {"level": 8, "lag_master_next_table_id": last}
    demux = must(Op.CREATE_FLOW_TABLE, op_mod=1, **kind, flow_table_context=context).table_id
    about = must(Op.QUERY_FLOW_TABLE, **kind, table_id=demux).flow_table_context
    assert about.lag_master_next_table_id == last
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_FLOW_TABLE, **kind, table_id=last)
    wrong = {"table_id": demux, "modify_field_select": ModifyFlowTable.MISS_TABLE_ID}
    refused(WRONG, Op.MODIFY_FLOW_TABLE, **kind, **wrong)
    select = {"modify_field_select": ModifyFlowTable.LAG_NEXT_TABLE_ID}
    refused(WRONG, Op.MODIFY_FLOW_TABLE, **kind, table_id=last, **select)
    must(Op.MODIFY_FLOW_TABLE, **kind, table_id=demux, **select)
    about = must(Op.QUERY_FLOW_TABLE, **kind, table_id=demux).flow_table_context
    assert about.lag_master_next_table_id == 0
    must(Op.DESTROY_FLOW_TABLE, **kind, table_id=last)


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"flow_table_context": {"level": 9, "lag_master_next_table_id": 1}}, WRONG),
        ({"flow_table_context": {"lag_master_next_table_id": 0x77}}, Status.BAD_RES_ERR),
        ({"op_mod": 2}, WRONG),
        ({"table_type": FlowTableType.RDMA_RX}, WRONG),
    ],
    ids=["to a lower level", "to none", "op_mod", "another type"],
)
def test_no_such_table(bonded, must, refused, fields, status):
    kind = {"table_type": FlowTableType.NIC_RX}
    assert must(Op.CREATE_FLOW_TABLE, **kind, flow_table_context={"level": 9}).table_id == 1
    refused(status, Op.CREATE_FLOW_TABLE, **{"op_mod": 1, **kind} | fields)


def test_no_such_table_with_one_port(bonded, refused):
    kind = {"op_mod": 1, "table_type": FlowTableType.NIC_RX}
    refused(WRONG, Op.CREATE_FLOW_TABLE, bonded.peer, **kind)


def test_an_affinity_is_to_a_port(bonded, must, refused):
    qp = bonded.master.queue_pair()
    path = {"primary_address_path": {"vhca_port_num": 1}}
    for port in (3, 15):
        refused(WRONG, Op.RST2INIT_QP, qpn=qp.qpn, qpc=path | {"lag_tx_port_affinity": port})
    qp.init(lag_tx_port_affinity=2)
    qp.to_rtr(qpn=qp.qpn, path={"fl": 1}, lag_tx_port_affinity=15)  # not taken by this transition
    assert must(Op.QUERY_QP, qpn=qp.qpn).qpc.lag_tx_port_affinity == 2


def test_a_tis_has_an_affinity(bonded, must, refused):
    driver = bonded.master.driver
    td = alloc_td(driver)
    tisn = create_tis(driver, td, strict_lag_tx_port_affinity=1)
    refused(WRONG, Op.CREATE_TIS, ctx={"transport_domain": td, "lag_tx_port_affinity": 3})
    select = {"bitmask": {"lag_tx_port_affinity": 1}}
    refused(WRONG, Op.MODIFY_TIS, tisn=tisn, **select, ctx={"lag_tx_port_affinity": 3})
    refused(WRONG, Op.MODIFY_TIS, tisn=tisn, bitmask=bytes((1,)) + bytes(7))
    must(Op.MODIFY_TIS, tisn=tisn, **select, ctx={"lag_tx_port_affinity": 2, "prio": 6})
    both = {"lag_tx_port_affinity": 1, "strict_lag_tx_port_affinity": 1}
    context = must(Op.QUERY_TIS, tisn=tisn).tis_context
    assert (context.lag_tx_port_affinity, context.strict_lag_tx_port_affinity) == (2, 1)
    assert context.prio == 0
    must(Op.MODIFY_TIS, tisn=tisn, bitmask=both, ctx={"lag_tx_port_affinity": 1})
    context = must(Op.QUERY_TIS, tisn=tisn).tis_context
    assert (context.lag_tx_port_affinity, context.strict_lag_tx_port_affinity) == (1, 0)

"""Scheduling elements that processes make, as general objects (rdma-core: mlx5dv_sched_*)."""

import pytest
from helpers.device.snapshot import snapshot

from emu.device.models import LINKS, MODELS
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from firmware_cmds.objects.scheduling import E_SWITCH, NIC, QUEUE_GROUP
from firmware_cmds.objects.vport_scheduling import TSAR, VPORT
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.general_object import GeneralObject
from layouts.objects.scheduling import sched_elem

KIND = GeneralObject.SCHEDULING_ELEMENT
MS = 1_000_000
BYTES = 1250
"""Of a frame: 10,000 bits."""
BW_SHARE, MAX_AVERAGE_BW = 1, 2


@pytest.fixture
def model():
    return MODELS["connectx6dx"]


@pytest.fixture
def uid(driver):
    return driver.must(Op.CREATE_UCTX).uid


def given(hierarchy=NIC, select=0, **context):
    obj = sched_elem.new(
        modify_field_select=select, scheduling_hierarchy=hierarchy, sched_context=context
    )
    return {"op_mod": KIND, "extra": bytes(obj)}


@pytest.fixture
def make(driver, uid):
    def element(parent=0, kind=TSAR, uid=uid, **context):
        context |= {"element_type": kind, "parent_element_id": parent}
        return driver.must(Op.CREATE_GENERAL_OBJECT, uid=uid, **given(**context)).obj_id

    return element


@pytest.fixture
def refused(driver, hca):
    def check(status, op, **fields):
        before = snapshot(hca)
        assert driver.command(op, **fields).status == status
        assert snapshot(hca) == before

    return check


def test_by_model():
    has = {
        name: bool(links[PortType.ETH].general["general_obj_types"] >> KIND & 1)
        for name, links in LINKS.items()
    }
    assert has["connectx6dx"]
    assert has["connectx7"]
    assert not has["connectx6"]
    assert not has["connectx6dx-vf"]


def test_a_tree_that_a_process_makes_changes_and_destroys(driver, uid, make, hca):
    """pyverbs: test_create_sched_tree."""
    root = make()
    node = make(root, max_average_bw=10, bw_share=2)
    leaf = make(node, QUEUE_GROUP)
    driver.must(
        Op.MODIFY_GENERAL_OBJECT, uid=uid, obj_id=leaf,
        **given(select=BW_SHARE | MAX_AVERAGE_BW, bw_share=3, max_average_bw=4),
    )  # fmt: skip
    found = hca.scheduling_elements.need(leaf)
    assert (found.ctx.bw_share, found.ctx.max_average_bw) == (3, 4)
    assert [*found.up()][1:] == [hca.scheduling_elements.need(number) for number in (node, root)]
    for number in (leaf, node, root):
        driver.must(Op.DESTROY_GENERAL_OBJECT, uid=uid, op_mod=KIND, obj_id=number)
    assert len(hca.scheduling_elements) == 0


def test_only_what_is_named_changes(driver, uid, make, hca):
    leaf = make(make(), QUEUE_GROUP, bw_share=5, max_average_bw=6)
    driver.must(
        Op.MODIFY_GENERAL_OBJECT, uid=uid, obj_id=leaf,
        **given(select=MAX_AVERAGE_BW, bw_share=1, max_average_bw=0),
    )  # fmt: skip
    found = hca.scheduling_elements.need(leaf)
    assert (found.ctx.bw_share, found.limit) == (5, None)


def test_a_send_queue_keeps_to_the_rate_of_its_leaf(node, driver, uid, make, clock, eth_wire):
    region = node.region(4096, va=0x10000)
    region.write(b"\x02\0\0\0\0\x09" * 2 + b"\x88\xb5", 0)
    leaf = make(make(), QUEUE_GROUP, max_average_bw=1)
    sq = SendQueue(node, tisn=create_tis(driver, alloc_td(driver)), log_size=9)
    driver.must(
        Op.MODIFY_SQ, sqn=sq.sqn, sq_state=sq.state, modify_bitmask=1 << 2,
        ctx={"state": sq.state, "qos_queue_group_id": leaf},
    )  # fmt: skip
    for _ in range(200):
        sq.send((BYTES, region.key, region.va), ring=False)
    sq.ring_doorbell()
    for _ in range(1000):
        node.settle()
        clock.advance(MS)
    assert 99 <= len(eth_wire.sent()) <= 102
    driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
    driver.must(Op.DESTROY_GENERAL_OBJECT, uid=uid, op_mod=KIND, obj_id=leaf)


@pytest.mark.hostile
class TestRefused:
    @pytest.mark.parametrize(
        ("status", "fields"),
        [
            (Status.BAD_PARAM_ERR, {"hierarchy": E_SWITCH}),
            (Status.BAD_PARAM_ERR, {"hierarchy": E_SWITCH, "element_type": VPORT}),
            (Status.BAD_PARAM_ERR, {"element_type": VPORT}),
            (Status.BAD_PARAM_ERR, {"element_type": 9}),
            (Status.BAD_PARAM_ERR, {"element_attributes": 1 << 16}),
            (Status.BAD_PARAM_ERR, {"bw_share": 101}),
            (Status.BAD_RES_ERR, {"parent_element_id": 0x4444}),
        ],
    )
    def test_elements_that_cannot_be(self, refused, uid, status, fields):
        refused(status, Op.CREATE_GENERAL_OBJECT, uid=uid, **given(**fields))

    def test_many_at_once(self, refused, uid):
        refused(Status.LIM_ERR, Op.CREATE_GENERAL_OBJECT, uid=uid, log_obj_range=1, **given())

    def test_a_short_object_is_one_of_zeros(self, refused, uid):
        refused(Status.BAD_PARAM_ERR, Op.CREATE_GENERAL_OBJECT, uid=uid, op_mod=KIND)

    def test_elements_of_others(self, driver, refused, uid, make):
        """Another process's, and the driver's."""
        other = driver.must(Op.CREATE_UCTX).uid
        for theirs in (make(uid=other), make(uid=0)):
            new = given(parent_element_id=theirs)
            refused(Status.BAD_RES_ERR, Op.CREATE_GENERAL_OBJECT, uid=uid, **new)
            change = {"uid": uid, "obj_id": theirs, **given(select=BW_SHARE, bw_share=1)}
            refused(Status.BAD_RES_STATE_ERR, Op.MODIFY_GENERAL_OBJECT, **change)
            gone = {"uid": uid, "op_mod": KIND, "obj_id": theirs}
            refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, **gone)

    def test_a_node_with_a_leaf_stays(self, refused, uid, make):
        root = make()
        make(root, QUEUE_GROUP)
        gone = {"uid": uid, "op_mod": KIND, "obj_id": root}
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, **gone)

    @pytest.mark.parametrize("select", [1 << 2, 1 << 63])
    def test_fields_that_do_not_change(self, refused, uid, make, select):
        change = {"uid": uid, "obj_id": make(), **given(select=select)}
        refused(Status.BAD_PARAM_ERR, Op.MODIFY_GENERAL_OBJECT, **change)

    def test_objects_of_another_type_do_not_change(self, driver, refused):
        kind = GeneralObject.RESERVED_QPN
        number = driver.must(Op.CREATE_GENERAL_OBJECT, op_mod=kind).obj_id
        change = {"op_mod": kind, "obj_id": number}
        refused(Status.BAD_PARAM_ERR, Op.MODIFY_GENERAL_OBJECT, **change)

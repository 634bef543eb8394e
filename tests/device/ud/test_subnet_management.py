"""QP0 of a function: SMPs to the switch, to other ports and to a manager in another guest."""

import pytest
from helpers.net.smi import PERMISSIVE, Smi

from emu.device.port.ib import sma
from emu.device.port.ib.port import SM_LID
from emu.driver.verbs.gsi import Gsi
from layouts.enums.cqe import CqeOpcode
from layouts.wire.mads import (
    DIRECTION,
    MadStatus,
    Method,
    MgmtClass,
    NodeType,
    SmpAttr,
    node_info,
    port_info,
)


@pytest.fixture
def smis(pair):
    return [Smi(node) for node in pair]


def test_a_route_to_the_switch_and_to_both_ports(smis, pair):
    """As ibnetdiscover walks: the switch says which of its ports it has been asked by."""
    answer = smis[0].ask(SmpAttr.NODE_INFO, 1)
    info = node_info.view(answer.data)
    assert (info.node_type, info.local_port_num) == (NodeType.SWITCH, 1)
    assert (answer.status, answer.hop_ptr) == (DIRECTION, 1)
    for number, node in enumerate(pair, 1):
        answer = smis[0].ask(SmpAttr.NODE_INFO, 1, number)
        assert node_info.view(answer.data).port_guid == node.hca.vport.guid
        assert (answer.status, answer.hop_ptr, answer.return_path[1]) == (DIRECTION, 1, 1)


def test_lid_routed(smis, pair):
    for asked in pair:
        info = port_info.view(smis[1].ask(SmpAttr.PORT_INFO, lid=asked.lid).data)
        assert info.lid == asked.lid
    assert port_info.view(smis[1].ask(SmpAttr.PORT_INFO, lid=SM_LID).data).lid == SM_LID


def test_a_port_answers_a_manager_that_supports_extended_speeds(smis):
    plain, extended, beyond = (
        smis[0].ask(SmpAttr.PORT_INFO, lid=2, attr_mod=modifier)
        for modifier in (1, 1 | sma.EXTENDED_SPEEDS, 2 | sma.EXTENDED_SPEEDS)
    )
    assert (extended.status, extended.data) == (MadStatus.SUCCESS, plain.data)
    assert beyond.status == MadStatus.INVALID_ATTRIB_VALUE


def test_ports_refuse_to_be_set(smis):
    for lid in (2, SM_LID):
        answer = smis[0].ask(SmpAttr.PORT_INFO, lid=lid, method=Method.SET)
        assert answer.status == MadStatus.UNSUPPORTED_METHOD_ATTRIB


def test_a_manager_behind_a_port_is_asked_itself(smis):
    """SMInfo comes to its QP0; what it answers finds the way back."""
    request = smis[0].request(SmpAttr.SM_INFO, 1, 2)
    smis[0].post(request, PERMISSIVE)
    assert smis[0].smps() == []
    (asked,) = smis[1].smps()
    assert (asked.tid, asked.hop_ptr, asked.return_path[1]) == (request.tid, 2, 1)
    asked.assign({"method": 0x81, "status": DIRECTION})
    smis[1].post(asked, PERMISSIVE)
    (answer,) = smis[0].smps()
    assert (answer.tid, answer.hop_ptr) == (request.tid, 1)


def test_no_partition_keeps_them_out(smis, pair):
    """SMPs have no P_Key (IBTA 10.9.8)."""
    for node in pair:
        node.hca.port.pkeys = (0,)
    assert smis[0].ask(SmpAttr.NODE_INFO, 1, 2).status == DIRECTION


def test_only_qp0_speaks_to_qp0(smis, pair):
    """A user's queue pair may send to any number, but not on the lane of QP0."""
    gsi = Gsi(pair[0])
    for lid in (2, SM_LID, PERMISSIVE):
        gsi.send(smis[0].request(SmpAttr.NODE_INFO), lid, dqp_dct=0, key=0)
        gsi.send(smis[0].request(SmpAttr.SM_INFO), lid, dqp_dct=0, key=0)
    assert (gsi.take(), smis[0].smps(), smis[1].smps()) == ([], [], [])
    assert not any(completion.opcode is CqeOpcode.REQ_ERR for completion in gsi.qp.cq.drain())


def test_management_of_another_class_is_for_qp0(smis):
    """Whoever owns it; the port answers SMPs alone."""
    mad = smis[0].request(SmpAttr.NODE_INFO)
    mad.mgmt_class = MgmtClass.PERF_MGMT
    smis[0].post(mad, 2)
    assert smis[0].smps() == []
    assert [found.tid for found in smis[1].smps()] == [mad.tid]


@pytest.mark.parametrize("wrong", [{"hop_ptr": 1}, {"status": DIRECTION}, {"dr_dlid": 2}], ids=str)
def test_route_that_does_not_end_here(smis, wrong):
    """The port answers none of them; its QP0 may."""
    mad = smis[0].request(SmpAttr.NODE_INFO, 1, 2)
    mad.hop_ptr = 2
    assert sma.taken_at_qp0(bytes(mad)) is not None
    mad.assign(wrong)
    assert sma.taken_at_qp0(bytes(mad)) is None

"""What an adapter has not got: commands that ask for it are refused, and others are not."""

import pytest

from emu.device.models import MODELS
from emu.driver.ethernet.interfaces import alloc_td, create_rq
from emu.driver.ethernet.rings import rq_fields, sq_fields
from emu.driver.verbs.completions import CompletionQueue
from firmware_cmds.objects.scheduling import NIC
from firmware_cmds.objects.vport_scheduling import TSAR
from layouts.enums.cmd import Op, Status

TSAR_OF = {"scheduling_hierarchy": NIC, "scheduling_context": {"element_type": TSAR}}


@pytest.fixture
def base_model():
    return MODELS["connectx6dx"]


@pytest.mark.parametrize(
    ("group", "capability", "op", "fields"),
    [
        ("qos", "packet_pacing", Op.SET_PP_RATE_LIMIT, {"rate_limit_index": 1}),
        ("qos", "nic_sq_scheduling", Op.CREATE_SCHEDULING_ELEMENT, TSAR_OF),
        ("ethernet", "tunnel_stateless_vxlan", Op.ADD_VXLAN_UDP_DPORT, {"vxlan_udp_port": 4800}),
    ],
)
def test_command(driver, hca, group, capability, op, fields):
    driver.must(op, **fields)
    setattr(getattr(hca.caps, group), capability, 0)
    assert driver.command(op, **fields).status == Status.BAD_OP_ERR


@pytest.mark.parametrize(
    ("capability", "option"),
    [
        ("reg_umr_sq", "reg_umr"),
        ("enhanced_multi_pkt_send_wqe", "allow_multi_pkt_send_wqe"),
        ("swp", "allow_swp"),
    ],
)
def test_option_of_a_send_queue(node, driver, hca, capability, option):
    cqn = CompletionQueue(node).cqn

    def make(**context):
        return driver.command(Op.CREATE_SQ, **sq_fields(driver, node.pdn, cqn, **context)[0]).status

    assert make(**{option: 1}) == Status.OK
    setattr(hca.caps.ethernet, capability, 0)
    assert make(**{option: 1}) == Status.BAD_PARAM_ERR
    assert make() == Status.OK


def test_option_of_a_receive_queue(node, driver, hca):
    cqn = CompletionQueue(node).cqn

    def make(**context):
        return driver.command(Op.CREATE_RQ, **rq_fields(driver, node.pdn, cqn, **context)[0]).status

    assert make(scatter_fcs=1) == Status.OK
    hca.caps.ethernet.scatter_fcs = 0
    assert make(scatter_fcs=1) == Status.BAD_PARAM_ERR
    assert make() == Status.OK


def test_option_of_a_tir(driver, hca):
    context = {"transport_domain": alloc_td(driver), "inline_rqn": create_rq(driver)}

    def make(**more):
        return driver.command(Op.CREATE_TIR, ctx=context | more).status

    assert make(tunneled_offload_en=1) == Status.OK
    hca.caps.ethernet.tunnel_stateless_vxlan = 0
    assert make(tunneled_offload_en=1) == Status.BAD_PARAM_ERR
    assert make() == Status.OK

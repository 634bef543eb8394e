"""MAD_IFC: what a driver without ib_virt asks the port's agents (hw/mad.c)."""

import pytest

from emu.device.state.hca import HcaOptions
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op, Status
from layouts.enums.vport import CapMask1
from layouts.wire.mads import (
    DIRECTION,
    MadStatus,
    Method,
    MgmtClass,
    PmaAttr,
    SmpAttr,
    pma_mad,
    pma_portcounters,
    smp,
)

GUID = 0x0002_C903_00AB_CD01
GET, SET = Method.GET, Method.SET


@pytest.fixture
def options():
    return HcaOptions(guid=GUID, lid=0x21)


@pytest.fixture
def limits():
    return {"ib_virt": 0}


def ask(driver, attr, attr_mod=0, **fields):
    """As hw/mad.c:ib_init_query_mad fills it; gives the answer."""
    fields = {
        "base_version": 1, "mgmt_class": MgmtClass.SUBN_LID_ROUTED, "class_version": 1,
        "method": GET, "attr_id": attr, "attr_mod": attr_mod, "tid": 9,
    } | fields  # fmt: skip
    answer = driver.must(Op.MAD_IFC, op_mod=3, port=1, mad=bytes(smp.new(**fields)))
    view = smp.view(answer.response_mad_packet)
    assert (view.method, view.attr_id, view.tid) == (0x81, attr, 9)
    return view


def test_node_info(driver):
    data = ask(driver, SmpAttr.NODE_INFO).data
    assert data[4:12] == data[12:20] == data[20:28] == GUID.to_bytes(8, "big")
    assert int.from_bytes(data[28:30], "big") == 128
    assert data[30:32] == (0x101B).to_bytes(2, "big")


def test_port_info(driver, function):
    data = ask(driver, SmpAttr.PORT_INFO, 1).data
    assert int.from_bytes(data[16:18], "big") == 0x21
    assert data[32] & 0xF == 4
    set_link(function.hca, up=False)
    assert ask(driver, SmpAttr.PORT_INFO).data[32] & 0xF == 1


def test_gids_by_prefix_and_block(driver):
    """hw/mad.c:mlx5_query_mad_ifc_gids puts a GID together from two answers."""
    assert ask(driver, SmpAttr.PORT_INFO, 1).data[8:16] == bytes.fromhex("fe80000000000000")
    data = ask(driver, SmpAttr.GUID_INFO).data
    assert data == GUID.to_bytes(8, "big") + bytes(56)


def test_pkeys_by_block(driver, function):
    function.hca.port.pkeys = (0xFFFF, *[0] * 39, 0x8001)
    assert ask(driver, SmpAttr.PKEY_TABLE).data == b"\xff\xff" + bytes(62)
    assert ask(driver, SmpAttr.PKEY_TABLE, 1).data[16:18] == b"\x80\x01"
    assert not any(ask(driver, SmpAttr.PKEY_TABLE, 3).data)


def test_a_channel_adapters_pkeys_have_no_port(driver, function):
    """smpquery and ibdiagnet name one above the block (qib_mad.c: subn_get_pkeytable)."""
    function.hca.port.pkeys = (0xFFFF, *[0] * 39, 0x8001)
    assert ask(driver, SmpAttr.PKEY_TABLE, 1 << 16 | 1).data[16:18] == b"\x80\x01"


def test_node_description_and_extended_port_info(driver):
    assert ask(driver, SmpAttr.NODE_DESC).data.startswith(b"ConnectX-6, ")
    assert not any(ask(driver, SmpAttr.EXTENDED_PORT_INFO, 1).data)


@pytest.mark.parametrize(
    ("attr", "attr_mod"),
    [
        *((SmpAttr.PORT_INFO, 2), (SmpAttr.PKEY_TABLE, 4), (SmpAttr.GUID_INFO, 1)),
        (SmpAttr.EXTENDED_PORT_INFO, 2),
    ],
)
def test_modifier_that_names_nothing(driver, attr, attr_mod):
    assert ask(driver, attr, attr_mod).status == MadStatus.INVALID_ATTRIB_VALUE


@pytest.mark.parametrize(("attr", "method"), [(0x20, GET), (0x15, SET), (0x12, GET), (0, 5)])
def test_what_the_agent_does_not_do(driver, attr, method):
    assert ask(driver, attr, method=method).status == MadStatus.UNSUPPORTED_METHOD_ATTRIB


@pytest.mark.parametrize("change", [{"base_version": 2}, {"class_version": 2}])
def test_other_versions(driver, change):
    assert ask(driver, SmpAttr.NODE_INFO, **change).status == MadStatus.BAD_VERSION


def test_directed_route_keeps_its_path(driver):
    """The driver itself marks the way back (hw/mad.c:mlx5_ib_process_mad)."""
    path = bytes(range(64))
    answer = ask(
        driver, SmpAttr.NODE_INFO, mgmt_class=MgmtClass.SUBN_DIRECTED_ROUTE, initial_path=path,
        hop_cnt=3, dr_slid=0xFFFF,
    )  # fmt: skip
    assert (answer.initial_path, answer.hop_cnt, answer.dr_slid) == (path, 3, 0xFFFF)
    assert not answer.status & DIRECTION


def test_counters_can_be_cleared(driver, function):
    """With vport_counters this is what still comes by MAD_IFC: perfquery -R."""
    function.hca.port.count_sent(3, 400)
    hdr = {
        "base_version": 1, "mgmt_class": MgmtClass.PERF_MGMT, "class_version": 1, "method": SET,
        "attr_id": PmaAttr.PORT_COUNTERS,
    }  # fmt: skip
    given = bytes(pma_portcounters.new(port_select=1, counter_select=0xFFFF)).ljust(192, b"\0")
    mad = bytes(pma_mad.new(mad_hdr=hdr, data=given))
    answer = pma_mad.view(driver.must(Op.MAD_IFC, port=1, mad=mad).response_mad_packet)
    assert (answer.mad_hdr.method, answer.mad_hdr.status) == (0x81, MadStatus.SUCCESS)
    assert pma_portcounters.view(answer.data).port_xmit_packets == 0
    assert driver.must(Op.QUERY_VPORT_COUNTER).transmitted_ib_unicast.packets == 3


@pytest.mark.parametrize("mgmt_class", [0x09, 0x0A, 0x21, 0x00, 0xFF, MgmtClass.SUBN_ADM])
def test_classes_without_an_agent(driver, mgmt_class):
    """Vendor classes and congestion control are passed on by the driver."""
    answer = ask(driver, 1, mgmt_class=mgmt_class)
    assert answer.status == MadStatus.UNSUPPORTED_METHOD_ATTRIB


def test_there_is_one_port(driver, refused):
    refused(Status.BAD_PARAM_ERR, Op.MAD_IFC, port=2, mad=bytes(256))
    assert driver.must(Op.MAD_IFC, port=0, mad=bytes(256)).response_mad_packet[3] == 0x81


def test_capability_mask_is_the_ports(driver, function):
    function.hca.port.cap_mask1 |= CapMask1.CM_SUP
    data = ask(driver, SmpAttr.PORT_INFO).data
    assert int.from_bytes(data[20:24], "big") & CapMask1.CM_SUP

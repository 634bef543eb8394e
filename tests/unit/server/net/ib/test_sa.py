"""The subnet administrator: what it takes for a question, and what it says of ports and paths."""

import pytest
from helpers.net.subnet import GUID, Subnet, end_port

from emu.device.port.datagram import GSI_QKEY
from emu.device.port.ib.port import SM_LID
from emu.server.net.ib.sa import paths
from emu.server.net.ib.sa.administrator import SM_GUID
from layouts.enums.vport import CapMask1
from layouts.wire.mads import RESPONSE, MadStatus, Method, NodeType, class_port_info
from layouts.wire.sa import SaAttr, SaStatus, Selector

GET, SET, GET_TABLE, DELETE = Method.GET, Method.SET, Method.GET_TABLE, Method.DELETE
FULL, LIMITED, OTHER = 0xFFFF, 0x7FFF, 0x8001


@pytest.fixture
def subnet():
    return Subnet()


# -- envelopes


def test_class_port_info(subnet):
    answer = subnet.ask(1, GET, SaAttr.CLASS_PORTINFO)
    info = class_port_info.view(answer.records[0])
    assert (info.base_version, info.class_version) == (1, 2)
    assert info.cap_mask2_resp_time.capability_mask2 & 1 << 12  # send-only full members
    assert info.capability_mask & 1 << 9  # UD multicast
    assert not any(info.redirect_gid)


@pytest.mark.parametrize("change", [{"base_version": 2}, {"class_version": 1}, {"mgmt_class": 4}])
def test_other_versions_and_classes_are_refused(subnet, change):
    request = subnet.request(GET, SaAttr.CLASS_PORTINFO)
    request.mad_hdr.assign(change)
    subnet.send(1, request)
    (answer,) = subnet.take(1)
    assert answer.mad_hdr.status == MadStatus.BAD_VERSION
    assert (answer.mad_hdr.method, answer.mad_hdr.tid) == (GET | RESPONSE, request.mad_hdr.tid)


@pytest.mark.parametrize("method", [0x00, 0x04, Method.GET_MULTI, Method.GET_TRACE_TBL, 0x7F])
def test_methods_that_are_not_there(subnet, method):
    request = subnet.request(method, SaAttr.NODE_REC)
    subnet.send(1, request)
    (answer,) = subnet.take(1)
    assert answer.mad_hdr.status == MadStatus.UNSUPPORTED_METHOD
    assert answer.mad_hdr.method == method | RESPONSE


@pytest.mark.parametrize(
    ("method", "attr"),
    [
        *((GET, 0x18), (GET_TABLE, 0x20), (SET, SaAttr.PATH_REC), (DELETE, SaAttr.NODE_REC)),
        *((GET_TABLE, SaAttr.CLASS_PORTINFO), (GET, SaAttr.INFORM_INFO), (GET, 0xFFFF), (SET, 0)),
    ],
)
def test_attributes_and_what_cannot_be_done_with_them(subnet, method, attr):
    assert subnet.ask(1, method, attr).status == MadStatus.UNSUPPORTED_METHOD_ATTRIB


@pytest.mark.parametrize(
    "method", [Method.SEND, Method.TRAP, Method.REPORT, Method.TRAP_REPRESS, 0x81, 0x92, 0x86]
)
def test_nobody_waits_for_an_answer_to_these(subnet, method):
    subnet.send(1, subnet.request(method, SaAttr.NODE_REC))
    assert not subnet.inboxes


@pytest.mark.parametrize(
    "envelope", [{"qkey": GSI_QKEY + 1}, {"qkey": 0}, {"pkey": 0x8001}, {"pkey": 0}]
)
def test_wrong_keys_are_dropped(subnet, envelope):
    subnet.send(1, subnet.request(GET, SaAttr.CLASS_PORTINFO), **envelope)
    assert not subnet.inboxes


@pytest.mark.parametrize("size", [0, 1, 24, 255, 257, 4096])
def test_datagrams_of_another_size_are_dropped(subnet, size):
    request = bytes(subnet.request(GET, SaAttr.CLASS_PORTINFO))
    subnet.send(1, request.ljust(size, b"\0")[:size])
    assert not subnet.inboxes


def test_a_lid_that_nobody_has_gets_no_answer(subnet):
    subnet.send(77, subnet.request(GET, SaAttr.CLASS_PORTINFO))
    assert not subnet.inboxes


def test_a_wrong_sm_key_gets_no_answer(subnet):
    subnet.send(1, subnet.request(GET, SaAttr.CLASS_PORTINFO, sm_key=2))
    assert not subnet.inboxes


def test_answers_go_back_to_the_queue_pair_that_asked(subnet):
    packets = []
    subnet.sa._send = lambda packet, origin: packets.append((packet, origin))
    request = subnet.request(GET, SaAttr.CLASS_PORTINFO)
    subnet.send(2, request, qpn=0x40)
    subnet.send(2, request, gid=subnet.sa.port.gid)
    (plain, origin), (with_grh, _) = packets
    assert (plain.to.lid, plain.to.qpn, plain.to.gid) == (2, 0x40, None)
    assert with_grh.to.gid == subnet.gid(2)
    assert origin.gid == subnet.sa.port.gid


# -- nodes and ports


def test_every_node_has_a_record(subnet):
    records = subnet.ask(1, GET_TABLE, SaAttr.NODE_REC).records
    assert [record.lid for record in records] == [1, 2, 3, SM_LID]
    assert [record.node_info.node_guid for record in records[:3]] == [GUID + n for n in (1, 2, 3)]
    assert records[3].node_info.port_guid == SM_GUID
    types = [record.node_info.node_type for record in records]
    assert types == [NodeType.CHANNEL_ADAPTER] * 3 + [NodeType.SWITCH]


@pytest.mark.parametrize(
    "wanted",
    [{"lid": 2}, {"node_info": {"port_guid": GUID + 2}}, {"node_info": {"node_guid": GUID + 2}}],
)
def test_nodes_are_found_by_what_is_known_of_them(subnet, wanted):
    names = [*wanted] if "lid" in wanted else [f"node_info.{name}" for name in wanted["node_info"]]
    assert subnet.ask(1, GET, SaAttr.NODE_REC, names, **wanted).record.lid == 2


def test_get_wants_one_record(subnet):
    assert subnet.ask(1, GET, SaAttr.NODE_REC).status == SaStatus.TOO_MANY_RECORDS
    assert subnet.ask(1, GET, SaAttr.NODE_REC, lid=99).status == SaStatus.NO_RECORDS
    table = subnet.ask(1, GET_TABLE, SaAttr.NODE_REC, lid=99)
    assert (table.status, table.records, table.mad.attr_offset) == (MadStatus.SUCCESS, [], 0)


def test_ports_that_can_be_the_subnet_manager(subnet):
    """saquery -s asks by attribute modifier and capability mask."""
    table = subnet.ask(
        1, GET_TABLE, SaAttr.PORT_INFO_REC, ["port_info.cap_mask"],
        attr_mod=1 << 31, port_info={"cap_mask": CapMask1.SM},
    )  # fmt: skip
    assert [record.lid for record in table.records] == [SM_LID]
    exact = subnet.ask(
        1, GET_TABLE, SaAttr.PORT_INFO_REC, ["port_info.cap_mask"],
        port_info={"cap_mask": CapMask1.SM},
    )  # fmt: skip
    assert exact.records == []


def test_a_port_that_goes_down_has_no_record(subnet):
    del subnet.ports[1]
    assert subnet.ask(1, GET, SaAttr.NODE_REC, lid=2).status == SaStatus.NO_RECORDS
    answer = subnet.ask(1, GET, SaAttr.PATH_REC, sgid=subnet.gid(1), dgid=end_port(2).gid)
    assert answer.status == SaStatus.REQ_INVALID_GID


# -- paths


def path(subnet, *mask, source=1, target=2, **fields):
    fields = {"sgid": subnet.gid(source), "dgid": subnet.gid(target)} | fields
    return subnet.ask(1, GET, SaAttr.PATH_REC, **fields)


def test_path_between_two_ports(subnet):
    """As ipoib and rdma_cm ask for it."""
    record = path(subnet, numb_path=1, pkey=FULL, traffic_class=3, reversible=1).record
    assert (record.slid, record.dlid) == (1, 2)
    assert (record.sgid, record.dgid) == (subnet.gid(1), subnet.gid(2))
    assert (record.mtu, record.mtu_selector) == (5, Selector.EQ)
    assert (record.rate, record.rate_selector) == (16, Selector.EQ)
    assert record.packet_life_time
    assert (record.pkey, record.sl, record.traffic_class) == (FULL, 0, 3)
    assert (record.hop_limit, record.reversible, record.raw_traffic) == (0, 1, 0)


def test_path_by_lid_and_to_oneself(subnet):
    record = subnet.ask(1, GET, SaAttr.PATH_REC, slid=1, dlid=1).record
    assert record.sgid == record.dgid == subnet.gid(1)
    assert path(subnet, dlid=3).status == SaStatus.NO_RECORDS
    assert path(subnet, dlid=2).record.dlid == 2


def test_paths_to_everybody(subnet):
    table = subnet.ask(2, GET_TABLE, SaAttr.PATH_REC, sgid=subnet.gid(2), numb_path=127)
    assert [record.dlid for record in table.records] == [1, 2, 3, SM_LID]
    assert {record.slid for record in table.records} == {2}
    assert len(subnet.ask(2, GET_TABLE, SaAttr.PATH_REC).records) == 16


def test_unknown_gid(subnet):
    assert path(subnet, dgid=bytes(16)).status == SaStatus.REQ_INVALID_GID


def test_the_slower_end_decides():
    subnet = Subnet()
    subnet.ports[1] = end_port(2, mtu=2048, speed=4)
    record = path(subnet).record
    assert (record.mtu, record.rate) == (4, 7)
    assert path(subnet, target=3).record.mtu == 5


def granted(answer, field):
    """A field of the path that was found; None when none was."""
    return None if answer.status == SaStatus.NO_RECORDS else getattr(answer.record, field)


@pytest.mark.parametrize(
    ("selector", "mtu", "found"),
    [
        *((Selector.EQ, 5, 5), (Selector.EQ, 2, 2), (Selector.EQ, 6, None), (Selector.EQ, 0, None)),
        *((Selector.GT, 4, 5), (Selector.GT, 5, None), (Selector.LT, 5, 4), (Selector.LT, 1, None)),
        *((Selector.BEST, 1, 5), (Selector.GT, 0, 5)),
    ],
)
def test_mtu_selectors(subnet, selector, mtu, found):
    assert granted(path(subnet, mtu_selector=selector, mtu=mtu), "mtu") == found


@pytest.mark.parametrize(
    ("selector", "rate", "found"),
    [
        *((Selector.EQ, 16, 16), (Selector.EQ, 7, 7), (Selector.EQ, 17, None)),
        *((Selector.LT, 16, 9), (Selector.GT, 7, 16), (Selector.GT, 16, None)),
        *((Selector.LT, 2, None), (Selector.EQ, 63, None), (Selector.BEST, 0, 16)),
    ],
)
def test_rate_selectors_go_by_speed(subnet, selector, rate, found):
    """Of 100 Gb/s (code 16) and less; the next slower one is 80 Gb/s (code 9)."""
    assert granted(path(subnet, rate_selector=selector, rate=rate), "rate") == found


@pytest.mark.parametrize(
    ("selector", "life", "found"),
    [
        *((Selector.EQ, 18, 18), (Selector.EQ, 20, 20), (Selector.EQ, 17, None)),
        *((Selector.LT, 19, 18), (Selector.LT, 18, None), (Selector.GT, 17, 18)),
        *((Selector.GT, 18, 19), (Selector.GT, 63, None), (Selector.BEST, 0, 18)),
    ],
)
def test_life_time_selectors(subnet, selector, life, found):
    """18 is the shortest; who wants to wait longer may."""
    assert (
        granted(
            path(subnet, packet_life_time_selector=selector, packet_life_time=life),
            "packet_life_time",
        )
        == found
    )


def test_no_path_for_raw_packets(subnet):
    assert path(subnet, raw_traffic=1).status == SaStatus.NO_RECORDS


# -- partitions


def test_ports_of_other_partitions_are_not_there():
    subnet = Subnet(2)
    subnet.ports += [end_port(3, pkeys=(OTHER,)), end_port(4, pkeys=(FULL, OTHER))]
    seen = [record.lid for record in subnet.ask(1, GET_TABLE, SaAttr.NODE_REC).records]
    assert seen == [1, 2, 4, SM_LID]
    assert path(subnet, target=3).status == SaStatus.NO_RECORDS
    between = {"sgid": subnet.gid(3), "dgid": subnet.gid(4)}
    assert subnet.ask(4, GET, SaAttr.PATH_REC, **between).record.pkey == OTHER
    assert subnet.ask(4, GET, SaAttr.PATH_REC, pkey=FULL, **between).status == SaStatus.NO_RECORDS
    seen = [r.lid for r in subnet.ask(1, GET_TABLE, SaAttr.NODE_REC, sm_key=1).records]
    assert seen == [1, 2, 3, 4, SM_LID]


def test_two_limited_members_have_no_path():
    subnet = Subnet(3, pkeys=(LIMITED,))
    assert path(subnet).status == SaStatus.NO_RECORDS
    assert subnet.ask(1, GET, SaAttr.PATH_REC, slid=1, dlid=SM_LID).record.pkey == LIMITED


def test_a_path_query_is_bounded(monkeypatch):
    monkeypatch.setattr(paths, "MAX_PAIRS", 15)
    subnet = Subnet()
    assert subnet.ask(1, GET_TABLE, SaAttr.PATH_REC).status == SaStatus.NO_RESOURCES
    assert len(subnet.ask(1, GET_TABLE, SaAttr.PATH_REC, slid=1).records) == 4

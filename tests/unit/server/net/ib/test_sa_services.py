"""Services that ports announce, and events that they subscribe to."""

import pytest
from helpers.net.subnet import Subnet, end_port

from emu.device.port.ib.port import SM_LID
from emu.server.net.ib.sa import events, services
from layouts.wire.mads import RESPONSE, MadStatus, Method
from layouts.wire.sa import SaAttr, SaStatus, SmTrap, inform_info, notice, sa_mad

GET, SET, GET_TABLE, DELETE = Method.GET, Method.SET, Method.GET_TABLE, Method.DELETE
SECOND = 1_000_000_000
KEY = bytes(range(16))


@pytest.fixture
def subnet():
    return Subnet()


# -- services


def service(subnet, method, lid=1, *, sm_key=0, but=(), **fields):
    fields = {
        "service_id": 7, "service_gid": subnet.gid(1), "service_pkey": 0xFFFF,
        "service_lease": services.FOR_EVER, "service_name": b"storage".ljust(64, b"\0"),
    } | fields  # fmt: skip
    mask = [name for name in fields if name not in but]
    return subnet.ask(lid, method, SaAttr.SERVICE_REC, mask, sm_key=sm_key, **fields)


def find(subnet, lid=2, sm_key=0, **fields):
    return subnet.ask(lid, GET_TABLE, SaAttr.SERVICE_REC, sm_key=sm_key, **fields).records


def test_what_is_announced_is_found_until_it_is_withdrawn(subnet):
    assert service(subnet, SET).record.service_id == 7
    (found,) = find(subnet, service_id=7)
    assert (found.service_gid, found.service_name) == (subnet.gid(1), b"storage".ljust(64, b"\0"))
    assert find(subnet, service_id=8) == []
    assert service(subnet, DELETE).status == MadStatus.SUCCESS
    assert find(subnet) == []
    assert service(subnet, DELETE).status == SaStatus.NO_RECORDS


def test_announcing_again_renews(subnet):
    service(subnet, SET, service_data8=[1] * 16)
    service(subnet, SET, service_data8=[2] * 16)
    (found,) = find(subnet)
    assert list(found.service_data8) == [2] * 16


def test_services_are_told_apart_by_id_port_and_partition(subnet):
    service(subnet, SET)
    service(subnet, SET, service_id=8)
    service(subnet, SET, 2, service_gid=subnet.gid(2))
    assert len(find(subnet)) == 3
    assert len(find(subnet, service_id=7)) == 2
    assert len(find(subnet, service_gid=subnet.gid(2))) == 1


def test_a_lease_runs_out(subnet):
    service(subnet, SET, service_lease=10)
    subnet.clock.advance(4 * SECOND)
    (found,) = find(subnet)
    assert found.service_lease == 6
    subnet.clock.advance(6 * SECOND)
    assert find(subnet) == []
    assert service(subnet, DELETE).status == SaStatus.NO_RECORDS
    service(subnet, SET, but=["service_lease"], service_lease=1)
    subnet.clock.advance(1000 * SECOND)
    assert find(subnet)[0].service_lease == services.FOR_EVER


def test_who_has_not_the_key_changes_nothing(subnet):
    service(subnet, SET, service_key=KEY)
    for method in (SET, DELETE):
        answer = service(subnet, method, service_key=bytes(16), service_data8=[9] * 16)
        assert answer.status == SaStatus.REQ_DENIED
    (found,) = find(subnet)
    assert list(found.service_data8) == [0] * 16
    assert service(subnet, DELETE, service_key=KEY).status == MadStatus.SUCCESS


def test_keys_are_for_the_trusted(subnet):
    service(subnet, SET, service_key=KEY)
    assert find(subnet)[0].service_key == bytes(16)
    assert find(subnet, service_key=KEY) == []
    assert find(subnet, sm_key=1, service_key=KEY)[0].service_key == KEY


@pytest.mark.parametrize("missing", ["service_id", "service_gid", "service_pkey"])
@pytest.mark.parametrize("method", [SET, DELETE])
def test_a_service_has_an_id_a_port_and_a_partition(subnet, method, missing):
    answer = service(subnet, method, but=[missing])
    assert answer.status == SaStatus.REQ_INSUFFICIENT_COMPONENTS


def test_unknown_port_and_foreign_partition(subnet):
    assert service(subnet, SET, service_gid=bytes(16)).status == SaStatus.REQ_INVALID_GID
    assert service(subnet, SET, service_pkey=0x8001).status == SaStatus.REQ_INVALID
    assert find(subnet) == []


def test_services_of_other_partitions_are_not_seen():
    subnet = Subnet(1, pkeys=(0xFFFF, 0x8001))
    subnet.ports.append(end_port(2))
    service(subnet, SET, service_pkey=0x8001)
    assert find(subnet, 2) == []
    foreign = {"service_pkey": 0x8001, "service_gid": subnet.gid(1)}
    assert service(subnet, DELETE, 2, **foreign).status == SaStatus.NO_RECORDS
    assert len(find(subnet, 1)) == 1


def test_services_go_with_their_port(subnet):
    service(subnet, SET)
    del subnet.ports[0]
    subnet.sa.sweep()
    assert find(subnet) == []


def test_services_are_bounded(subnet, monkeypatch):
    monkeypatch.setattr(services, "MAX_SERVICES", 2)
    for number in (1, 2):
        service(subnet, SET, number, service_id=number)
    assert service(subnet, SET, 3, service_id=3).status == SaStatus.NO_RESOURCES
    assert service(subnet, SET, 3, service_id=2).status == MadStatus.SUCCESS


def test_a_port_leaves_services_to_the_others(subnet, monkeypatch):
    monkeypatch.setattr(services, "MAX_SERVICES_OF_A_PORT", 2)
    service(subnet, SET, service_id=1)
    service(subnet, SET, service_id=2, service_gid=subnet.gid(2))  # another port's, but own request
    assert service(subnet, SET, service_id=3).status == SaStatus.NO_RESOURCES
    assert service(subnet, SET, 2, service_id=3).status == MadStatus.SUCCESS
    assert service(subnet, SET, service_id=1).status == MadStatus.SUCCESS  # renewed


def test_a_host_leaves_services_to_the_others(subnet, monkeypatch):
    """However many ports it has."""
    monkeypatch.setattr(services, "MAX_SERVICES", 4)
    subnet.hosts = {1: "a", 2: "a"}
    for lid in (1, 2):
        assert service(subnet, SET, lid, service_id=lid).status == MadStatus.SUCCESS
    assert service(subnet, SET, 2, service_id=3).status == SaStatus.NO_RESOURCES
    assert service(subnet, SET, 3, service_id=3).status == MadStatus.SUCCESS


# -- events


def subscribe(subnet, lid=1, *, subscribe=1, **fields):
    info = {
        "lid_range_begin": 0xFFFF, "lid_range_end": 0xFFFF, "is_generic": 1, "trap_type": 0xFFFF,
        "trap_num": 0xFFFF, "producer_type": 0xFFFFFF, "resp_time": 19,
    } | fields  # fmt: skip
    return subnet.ask(lid, SET, SaAttr.INFORM_INFO, (), subscribe=subscribe, **info)


def reports(subnet, lid=1):
    """The notices that a port is sent, each answered as it should be."""
    found = []
    for mad in subnet.take(lid):
        assert (mad.mad_hdr.method, mad.mad_hdr.attr_id) == (Method.REPORT, SaAttr.NOTICE)
        answer_report(subnet, lid, mad)
        view = notice.view(mad.data)
        assert (view.is_generic, view.issuer_lid) == (1, SM_LID)
        assert view.issuer_gid == subnet.sa.port.gid
        found.append((view.trap_num, view.gid))
    return found


def answer_report(subnet, lid, mad):
    answer = sa_mad.view(bytearray(bytes(mad)))
    answer.mad_hdr.method = Method.REPORT | RESPONSE
    subnet.send(lid, answer)


def come_and_go(subnet):
    """Port 4 comes and goes."""
    subnet.ports.append(end_port(4))
    subnet.sa.sweep()
    subnet.ports.pop()
    subnet.sa.sweep()
    return end_port(4).gid


def test_a_subscriber_hears_of_ports(subnet):
    answer = subscribe(subnet).record
    assert (answer.subscribe, answer.qpn, answer.trap_num) == (1, 1, 0xFFFF)
    gid = come_and_go(subnet)
    assert reports(subnet) == [(SmTrap.GID_IN_SERVICE, gid), (SmTrap.GID_OUT_OF_SERVICE, gid)]
    assert not subnet.inboxes
    assert not subnet.sa.subscriptions._reports


def test_a_subscriber_hears_of_groups(subnet):
    subscribe(subnet)
    mgid = bytes.fromhex("ff12401bffff") + bytes(9) + b"\5"
    fields = {
        "mgid": mgid, "port_gid": subnet.gid(2), "join_state": 1, "qkey": 1, "pkey": 0xFFFF,
        "traffic_class": 0, "sl": 0, "flow_label": 0,
    }  # fmt: skip
    subnet.ask(2, SET, SaAttr.MC_MEMBER_REC, **fields)
    subnet.ask(2, DELETE, SaAttr.MC_MEMBER_REC, **fields)
    assert reports(subnet) == [(SmTrap.MGID_CREATED, mgid), (SmTrap.MGID_DELETED, mgid)]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"trap_num": SmTrap.GID_IN_SERVICE}, 1),
        ({"trap_num": SmTrap.MGID_CREATED}, 0),
        ({"trap_type": 3}, 2),
        ({"trap_type": 1}, 0),
        ({"producer_type": 4}, 2),
        ({"producer_type": 1}, 0),
        ({"is_generic": 0}, 0),
        ({"lid_range_begin": SM_LID, "lid_range_end": 0}, 2),
        ({"lid_range_begin": 1, "lid_range_end": 0xBFFF}, 2),
        ({"lid_range_begin": 1, "lid_range_end": 5}, 0),
        ({"gid": b"\1" * 16}, 0),
    ],
)
def test_only_what_was_asked_for(subnet, wanted, count):
    subscribe(subnet, **wanted)
    come_and_go(subnet)
    assert len(reports(subnet)) == count


def test_issuer_by_gid(subnet):
    subscribe(subnet, gid=subnet.sa.port.gid)
    come_and_go(subnet)
    assert len(reports(subnet)) == 2


def test_a_report_is_repeated_until_it_is_answered(subnet):
    subscribe(subnet)
    come_and_go(subnet)
    first = subnet.take(1)
    answer_report(subnet, 2, first[0])  # it was not sent to this one
    answer_report(subnet, 1, first[1])
    subnet.clock.advance(events.REPORT_TIMEOUT_NS)
    (again,) = subnet.take(1)
    assert bytes(again) == bytes(first[0])
    for _ in range(events.MAX_TRIES + 2):
        subnet.clock.advance(events.REPORT_TIMEOUT_NS)
    assert len(subnet.take(1)) == events.MAX_TRIES - 2
    assert not subnet.sa.subscriptions._reports
    assert subnet.clock.waiting() == 0


def test_a_subscription_ends(subnet):
    subscribe(subnet)
    assert subscribe(subnet, subscribe=0, resp_time=3).status == SaStatus.REQ_INVALID
    assert subscribe(subnet, subscribe=0, qpn=1).status == MadStatus.SUCCESS
    assert subscribe(subnet, subscribe=0).status == SaStatus.REQ_INVALID
    come_and_go(subnet)
    assert not subnet.inboxes


def test_subscriptions_can_be_asked_for(subnet):
    subscribe(subnet, 1)
    subscribe(subnet, 2, trap_num=64)
    (own,) = subnet.ask(2, GET_TABLE, SaAttr.INFORM_INFO_REC).records
    assert own.subscriber_gid == subnet.gid(2)
    assert (own.inform_info.trap_num, own.inform_info.subscribe) == (64, 1)
    records = subnet.ask(2, GET_TABLE, SaAttr.INFORM_INFO_REC, sm_key=1).records
    assert [record.subscriber_gid for record in records] == [subnet.gid(1), subnet.gid(2)]


def test_a_subscriber_that_leaves_is_forgotten(subnet):
    subscribe(subnet, 2)
    gone = subnet.ports.pop(1)
    subnet.sa.sweep()
    subnet.ports.append(gone)
    subnet.sa.sweep()
    assert not subnet.inboxes
    assert len(subnet.sa.subscriptions) == 0


def test_subscriptions_and_reports_are_bounded(subnet, monkeypatch):
    monkeypatch.setattr(events, "MAX_SUBSCRIPTIONS", 3)
    monkeypatch.setattr(events, "MAX_REPORTS", 3)
    for lid in (1, 2):
        assert subscribe(subnet, lid).status == MadStatus.SUCCESS
    assert subscribe(subnet, 3).status == MadStatus.SUCCESS
    assert subscribe(subnet, 3, resp_time=3).status == SaStatus.NO_RESOURCES
    come_and_go(subnet)
    assert sum(len(subnet.take(lid)) for lid in (1, 2, 3)) == 3


def test_a_host_leaves_subscriptions_and_reports_to_the_others(subnet, monkeypatch):
    monkeypatch.setattr(events, "MAX_SUBSCRIPTIONS", 4)
    monkeypatch.setattr(events, "MAX_REPORTS", 4)
    subnet.hosts = {1: "a", 2: "a"}
    for lid in (1, 2):
        assert subscribe(subnet, lid).status == MadStatus.SUCCESS
    assert subscribe(subnet, 2, resp_time=3).status == SaStatus.NO_RESOURCES
    assert subscribe(subnet, 3).status == MadStatus.SUCCESS
    come_and_go(subnet)
    of_a = subnet.take(1) + subnet.take(2)
    assert (len(of_a), len(subnet.take(3))) == (2, 2)


def test_a_port_leaves_subscriptions_and_reports_to_the_others(subnet, monkeypatch):
    monkeypatch.setattr(events, "MAX_SUBSCRIPTIONS_OF_A_PORT", 2)
    monkeypatch.setattr(events, "MAX_REPORTS_OF_A_PORT", 3)
    for number in (1, 2):
        subscribe(subnet, resp_time=number)
    assert subscribe(subnet, resp_time=3).status == SaStatus.NO_RESOURCES
    assert subscribe(subnet, resp_time=1).status == MadStatus.SUCCESS
    assert subscribe(subnet, 2).status == MadStatus.SUCCESS
    come_and_go(subnet)
    unanswered = subnet.take(1)
    assert (len(unanswered), len(reports(subnet, 2))) == (3, 2)
    for mad in unanswered:
        answer_report(subnet, 1, mad)
    come_and_go(subnet)
    assert len(subnet.take(1)) == 3


def test_inform_info_is_as_long_as_ibtas(subnet):
    assert inform_info.size == 36

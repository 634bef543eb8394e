"""Whatever comes from the wire, the administrator neither fails nor grows without bound."""

import pytest
from construct import BitsInteger
from helpers.net.subnet import RECORDS, Subnet, end_port
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.port.ib.port import SM_LID
from emu.server.net.ib.sa import events, multicast, rmpp, services
from layouts.wire.bth import MULTICAST_LID
from layouts.wire.mads import MAD_BYTES, Method
from layouts.wire.sa import DATA_BYTES, SaAttr, sa_mad

pytestmark = pytest.mark.hostile

LIDS = (1, 2, 3, 9, SM_LID)
GIDS = [end_port(lid).gid for lid in (1, 2, 3, 9)]
MGIDS = [bytes.fromhex("ff12401bffff") + bytes(9) + bytes([n]) for n in range(4)] + [bytes(16)]

numbers = st.one_of(st.sampled_from((0, 1, 2, 3, 5, 18, 0xFFFF)), st.integers(0, (1 << 64) - 1))
masks = st.one_of(st.sampled_from((0, (1 << 64) - 1, 0x3FFFF, 0x7F)), st.integers(0, (1 << 64) - 1))
gids = st.one_of(st.sampled_from(GIDS + MGIDS), st.binary(min_size=16, max_size=16))


@st.composite
def records(draw, attr):
    """A record of an attribute with values in it that mean something, now and then."""
    prm = RECORDS.get(attr)
    if prm is None or draw(st.booleans()):
        return draw(st.binary(max_size=DATA_BYTES))
    view = prm.new()
    for field in prm.fields:
        if field.name.endswith("gid"):
            setattr(view, field.name, draw(gids))
        elif isinstance(field.kind, BitsInteger):
            setattr(view, field.name, draw(numbers) & (1 << field.width) - 1)
    return bytes(view)


@st.composite
def mads(draw):
    """A MAD that is nearly right, with one byte or none changed."""
    attr = draw(st.one_of(st.sampled_from(list(SaAttr)), st.integers(0, 0xFFFF)))
    method = draw(st.one_of(st.sampled_from(list(Method)), st.integers(0, 0xFF)))
    mad = sa_mad.new(
        mad_hdr={
            "base_version": 1, "mgmt_class": 3, "class_version": 2, "method": method,
            "attr_id": attr, "tid": draw(st.integers(0, 3)), "attr_mod": draw(numbers) & 0xFFFFFFFF,
        },
        sm_key=draw(st.sampled_from((0, 0, 1, 7))), comp_mask=draw(masks),
    )  # fmt: skip
    if draw(st.integers(0, 3)) == 0:
        mad.rmpp_hdr = {
            "rmpp_version": draw(st.sampled_from((1, 1, 1, 0))),
            "rmpp_type": draw(st.integers(0, 5)), "rmpp_flags": draw(st.integers(0, 7)),
            "rmpp_status": draw(st.sampled_from((0, 0, 1, 127))),
            "seg_num": draw(numbers) & 0xFFFFFFFF, "paylen_newwin": draw(numbers) & 0xFFFFFFFF,
        }  # fmt: skip
    mad.data = draw(records(attr)).ljust(DATA_BYTES, b"\0")
    data = bytearray(bytes(mad))
    if draw(st.integers(0, 3)) == 0:
        data[draw(st.integers(0, MAD_BYTES - 1))] = draw(st.integers(0, 255))
    return bytes(data)


steps = st.one_of(
    st.tuples(st.just("mad"), st.sampled_from(LIDS), mads()),
    st.tuples(st.just("raw"), st.sampled_from(LIDS), st.binary(max_size=300)),
    st.tuples(st.just("time"), st.integers(0, 10), st.none()),
    st.tuples(st.just("port"), st.integers(1, 4), st.none()),
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(multicast, "MAX_GROUPS", 4)
    monkeypatch.setattr(services, "MAX_SERVICES", 4)
    monkeypatch.setattr(events, "MAX_SUBSCRIPTIONS", 4)
    monkeypatch.setattr(events, "MAX_REPORTS", 8)
    monkeypatch.setattr(rmpp, "MAX_TRANSFERS", 4)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(steps, max_size=40))
def test_anything_at_all(todo):
    subnet = Subnet()
    for step, who, what in todo:
        if step in ("mad", "raw"):
            subnet.send(who, what)
        elif step == "time":
            subnet.clock.advance(who * 1_000_000_000)
        else:
            toggle(subnet, who)
        check(subnet)
    subnet.clock.advance(1_000_000_000_000)
    assert len(subnet.sa.transfers) == 0
    assert subnet.clock.waiting() == 0


def toggle(subnet, lid):
    """A port comes or goes."""
    there = [port for port in subnet.ports if port.lid == lid]
    if there:
        subnet.ports.remove(there[0])
    else:
        subnet.ports.append(end_port(lid))
    subnet.sa.sweep()


def check(subnet):
    state = subnet.sa
    assert len(state.groups) <= 4
    assert len(state.services) <= 4
    assert len(state.subscriptions) <= 4
    assert len(state.transfers) <= 4
    known = {port.gid for port in subnet.ports} | {state.port.gid}
    groups = state.groups._groups.values()
    assert all(group.members.keys() <= known for group in groups)
    assert all(group.is_permanent or group.members for group in groups)
    mlids = {group.mlid for group in groups}
    assert mlids <= set(range(MULTICAST_LID, MULTICAST_LID + 4))
    assert len(mlids) == len(groups)

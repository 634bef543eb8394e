"""What becomes of many objects: freed share by share, without Python's collector."""

import gc

import pytest

from emu.device.cmdif.registry import COMMANDS
from emu.device.objects import deferred_free
from emu.driver.verbs.connect import connect
from emu.driver.verbs.parts import Parts
from layouts.enums.cmd import Op
from layouts.enums.hca import TeardownProfile
from layouts.enums.qp import QpState, QpType

GRACEFUL, FORCED = TeardownProfile.GRACEFUL_CLOSE, TeardownProfile.FORCE_CLOSE

pytestmark = pytest.mark.hostile


def end(driver, function, profile):
    """Have the objects dropped: by TEARDOWN_HCA, or by a reset for None."""
    if profile is None:
        function.reset()
        return
    layout = COMMANDS[Op.TEARDOWN_HCA].layout_in
    driver.submit(layout.new(opcode=Op.TEARDOWN_HCA, profile=profile).buf, 16)
    driver.write32(0x018, 1)
    assert function.run()


@pytest.mark.parametrize("profile", [GRACEFUL, FORCED, None])
def test_a_share_in_each_round(driver, function, monkeypatch, profile):
    monkeypatch.setattr(deferred_free, "FREED_PER_ROUND", 10)
    pdn = driver.alloc_pd()
    for _ in range(95):
        driver.create_mkey(pdn)
    end(driver, function, profile)
    assert not any(function.hca.tables)
    left, rounds = len(function.deferred_free), 0
    assert left >= 85
    while function.run():
        assert left - len(function.deferred_free) <= 10
        left, rounds = len(function.deferred_free), rounds + 1
    assert rounds >= 8
    assert not function.deferred_free


@pytest.mark.parametrize("profile", [GRACEFUL, FORCED, None])
def test_memberships_of_multicast_groups_as_well(driver, function, monkeypatch, profile):
    """A queue pair may have a million."""
    monkeypatch.setattr(deferred_free, "FREED_PER_ROUND", 10)
    qpn = Parts(driver).make(QpState.INIT, st=QpType.UD)
    for number in range(95):
        gid = b"\xff\x12" + bytes(13) + bytes([number])
        driver.must(Op.ATTACH_TO_MCG, qpn=qpn, multicast_gid=gid)
    qp, groups = function.hca.qps.need(qpn), function.hca.mcgs
    end(driver, function, profile)
    assert not function.hca.mcgs
    assert "multicast" not in function.hca.ledger.accounts
    left = len(groups)
    assert left >= 85
    while function.run():
        assert len(groups) == len(qp.mcgs)
        assert left - len(groups) <= 10
        left = len(groups)
    assert not groups


def test_they_count_among_the_steps_of_a_round(driver, function):
    """As many functions may free at once."""
    pdn = driver.alloc_pd()
    for _ in range(500):
        driver.create_mkey(pdn)
    function.reset()
    assert len(function.deferred_free) >= 500
    steps, is_busy = [], True
    while is_busy:
        is_busy = function.run()
        steps.append(function.hca.budget.steps)
    assert max(steps) >= 250


def churn(left, right):
    """Queue pairs that live, work, fail and go."""
    one, two = left.queue_pair(), right.queue_pair()
    connect(one, two)
    source, target = left.region(8192), right.region(8192)
    two.post_recv(target.sge())
    one.send(source.sge(0, 64))
    one.write((target.key, target.va), source.sge())
    one.read((target.key, target.va), source.sge())
    one.write((target.key + 1, target.va), source.sge())
    left.settle()
    assert [done.syndrome for done in one.cq.drain()][:3] == [0, 0, 0]
    for qp in (one, two):
        qp.destroy()
        qp.node.driver.must(Op.DESTROY_CQ, cqn=qp.cq.cqn)
    for region in (source, target):
        region.node.driver.must(Op.DESTROY_MKEY, mkey_index=region.index)


@pytest.mark.parametrize("way", ["pair", "packet_pair"])
def test_objects_that_are_destroyed_leave_no_garbage(request, way):
    """The collector seldom looks at old objects."""
    left, right = request.getfixturevalue(way)
    churn(left, right)
    gc.collect()
    gc.disable()
    try:
        churn(left, right)
        assert left.driver.command(Op.DEALLOC_PD, pd=0x777).status
        assert gc.collect() == 0
    finally:
        gc.enable()

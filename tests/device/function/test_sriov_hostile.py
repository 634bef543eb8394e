"""Hostile guests with virtual functions, and what many of their lives leave behind."""

from __future__ import annotations

import gc
import logging
import tracemalloc
from contextlib import suppress
from random import Random

import pytest
from helpers.device.adapters import set_policy
from helpers.device.sriov import CONTROL, NUM_VFS, SRIOV, Sriov

from emu.device.ports import DmaError
from emu.device.state.hca import Hca, HcaState
from emu.driver.command.bar import MEMORY_SPACE, enable
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.server.net.ib.local import LocalFabric
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode

ALL_ONES = b"\xff" * 4
LENGTH = 64
VFS, CYCLES = 3, 100


def made_infiniband(clock):
    return Sriov(clock, VFS, "connectx6", PortType.IB, LocalFabric(clock))


def probed(sriov):
    """Probe the physical function and all VFs, whose ports are then up; return VFs' drivers."""
    sriov.pf.driver, drivers = sriov.probed(VFS)
    for number in range(1, VFS + 1):
        set_policy(sriov.pf.driver, number)
    return drivers


class Traffic:
    """Messages from one virtual function to another."""

    def __init__(self, sriov, drivers):
        self.nodes = [
            Node(vf.function, driver) for vf, driver in zip(sriov.vfs, drivers[:2])
        ]  # fmt: skip
        sender, receiver = self.nodes
        self.cq = sender.completion_queue()
        self.qp = sender.queue_pair(cq=self.cq)
        self.peer = receiver.queue_pair()
        connect(self.qp, self.peer)
        self.source, self.target = sender.region(LENGTH), receiver.region(LENGTH)

    def write(self):
        self.qp.write((self.target.key, self.target.va), self.source.sge(0, LENGTH))

    def arrives(self):
        self.write()
        for node in self.nodes * 2:
            node.settle()
        return [entry.opcode for entry in self.cq.drain()] == [CqeOpcode.REQ]


@pytest.mark.hostile
@pytest.mark.parametrize("seed", range(4))
def test_the_capability_at_random_while_vfs_have_traffic(clock, seed):
    """Each write is a dword at random, or one that enables or disables VFs."""
    random = Random(seed)
    sriov = made_infiniband(clock)
    everyone = [sriov.pf, *sriov.vfs]
    for _ in range(8):
        traffic = Traffic(sriov, probed(sriov))
        assert traffic.arrives()
        for _ in range(40):
            offset = SRIOV + random.choice((0x08, 0x10, random.randrange(0x40)))
            value = random.choice((0, 1, 9, random.randrange(VFS + 2), random.getrandbits(8)))
            sriov.pf.put(offset, random.choice((1, 2, 4)), value)
            with suppress(DmaError):  # of the driver, which shares its memory with the function
                traffic.write()
            for one in everyone:
                one.function.run()
            are_as_the_capability_says(sriov)
        sriov.disable()
    assert not any(one.function.hca.health.has_failed for one in everyone)
    assert sriov.pf.function.hca.state is HcaState.INITIALIZED
    assert {vf.function.hca.state for vf in sriov.vfs} == {HcaState.DISABLED}


def are_as_the_capability_says(sriov):
    config = sriov.pf.function.config
    number, has_memory = config.enabled_vfs, config.decodes_vf_memory
    assert sriov.on_bus() == [at < number for at in range(VFS)]
    for at, vf in enumerate(sriov.vfs):
        is_alive = vf.function.bar_read(0, 0, 4) != ALL_ONES
        assert is_alive == (at < number and has_memory)


@pytest.mark.hostile
def test_no_bus_master_of_the_pf_stops_the_pf_only(clock):
    """A VF masters the bus by its own bit (PCIe 5.0, 9.3.4.1.3)."""
    sriov = made_infiniband(clock)
    drivers = probed(sriov)
    traffic = Traffic(sriov, drivers)
    enable(sriov.pf.function, MEMORY_SPACE)
    assert traffic.arrives()
    drivers[2].must(Op.ALLOC_PD)
    enable(sriov.pf.function)
    sriov.pf.driver.must(Op.ALLOC_PD)


def test_many_lives_of_vfs_leave_nothing_behind(clock, caplog):
    """As `echo 3` and `echo 0` to sriov_numvfs, with a probe of each and objects left behind."""
    caplog.set_level(logging.CRITICAL)  # or each line would stay until the test ends
    sriov = Sriov(clock, VFS)
    driver = sriov.pf.probe()

    def live():
        sriov.enable(VFS)
        for number, vf in enumerate(sriov.vfs, 1):
            driver.must(Op.ENABLE_HCA, function_id=number)
            of_vf = vf.probe()
            for _ in range(10):
                of_vf.must(Op.ALLOC_PD)
        sriov.pf.put(CONTROL, 2, 0)
        sriov.pf.put(NUM_VFS, 2, 0)
        for number in range(1, VFS + 1):
            driver.must(Op.DISABLE_HCA, function_id=number)
        for vf in sriov.vfs:
            while vf.function.run():
                pass
            vf.memory._next = vf.memory.base

    def measured():
        gc.collect()
        pf = sriov.pf.function
        return {
            "hcas": sum(isinstance(one, Hca) for one in gc.get_objects()),
            "ledgers": [one.function.hca.ledger.used for one in (sriov.pf, *sriov.vfs)],
            "vports": sorted(pf.adapter._by_vport),
            "pages": {number: len(pages) for number, pages in pf.hca.fwpages.virtual.items()},
            "timers": clock.waiting(),
        }

    live()
    before = measured()
    tracemalloc.start()
    try:
        live()
        gc.collect()
        first, _ = tracemalloc.get_traced_memory()
        for _ in range(CYCLES):
            live()
        assert measured() == before
        last, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert last - first < CYCLES * 256

"""Work requests on keys that make any sense or none: the device refuses or obeys, and lives on."""

import pytest
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.rounds.budget import POLL_BUDGET, STEPS_PER_ACCESS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.keys.signatures import Crc, Dif, SignatureKey
from emu.driver.keys.umr import FastRegKey, umr
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.mkey import AccessMode, MkeyMask
from layouts.enums.qp import QpState
from layouts.enums.wqe import UmrFlag
from layouts.rings.wqe import KLM, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

pytestmark = pytest.mark.hostile

IOVA = 0x1234_0000_0000
ADDRESSES = st.sampled_from([0, 1, IOVA, IOVA + 8, IOVA + 4096, (1 << 63), (1 << 64) - 1])
LENGTHS = st.sampled_from([0, 1, 8, 520, 4096, 1 << 20, 1 << 31, (1 << 64) - 1])
OFFSETS = st.sampled_from([0, 4, 8, 12, 16, 28, 32, (1 << 48) - 1])
"""In octwords: into the lists, behind what they have, and behind their room."""
A_ROUND = POLL_BUDGET + STEPS_PER_ACCESS
SMALL = st.integers(0, 3)


def fresh():
    """A function of its own, a region, and keys of every kind; two have room to leave holes in."""
    memory, clock, irqs = Memory(2 << 20), HandClock(), IrqList()
    wire, options = LocalFabric(clock), HcaOptions(guid=1)
    function = Function(MODELS["connectx6"], options, TABLE, memory, irqs, clock, wire)
    node = Node(function, Driver(FunctionBar(function), memory, irqs).probe())
    keys = [
        FastRegKey(node, entries=64),
        FastRegKey(node, entries=8, mode=AccessMode.KLMS),
        FastRegKey(node, entries=32, mode=AccessMode.KSM),
        SignatureKey(node),
    ]
    return node, node.region(8192, va=IOVA), keys


def new_pair(node):
    options = {"log_sq_size": 5, "log_rq_size": 2, "log_cq_size": 5}
    pair = node.queue_pair(**options), node.queue_pair(**options)
    connect(*pair)
    return pair


def flags_of(enum):
    return st.sets(st.sampled_from(list(enum))).map(lambda bits: sum(map(int, bits)))


def entries(region, keys):
    """Translations: ranges of real keys, repeat blocks, pages, noise."""
    key = st.sampled_from([region.key, *(one.key for one in keys), REPEAT_BLOCK, 0xABCD00])
    sizes = st.sampled_from([0, 1, 7, 520, 4096, 0xFFFFFFFF])
    short = st.integers(0, 0xFFFF)
    rows = st.one_of(
        st.builds(KLM.pack, sizes, key, ADDRESSES),
        st.builds(REPEAT.pack, sizes, st.just(REPEAT_BLOCK), sizes, short),
        st.builds(REPEAT_ENTRY.pack, short, short, key, ADDRESSES),
        st.sampled_from([region.pages[0] | 3, region.pages[1] | 1]).map(
            lambda page: page.to_bytes(8, "big") * 2
        ),
        st.binary(min_size=16, max_size=16),
    )
    return st.lists(rows, max_size=8).map(lambda found: b"".join(found).ljust(128, b"\0"))


CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "free": SMALL.map(bool), "umr_en": SMALL.map(bool), "mkey_7_0": SMALL, "len": LENGTHS,
        "start_addr": ADDRESSES, "log_page_size": st.integers(0, 63), "lr": SMALL.map(bool),
        "lw": SMALL.map(bool), "rr": SMALL.map(bool), "rw": SMALL.map(bool),
        "length64": SMALL.map(lambda bit: bit == 0), "bsf_en": SMALL.map(bool),
        "qpn": st.just(0x40),
    },
)  # fmt: skip


@settings(max_examples=examples(60))
@given(data=st.data())
def test_any_sequence_of_updates_and_accesses(data):
    node, region, keys = fresh()
    pair = new_pair(node)
    for _ in range(data.draw(st.integers(1, 8))):
        one = data.draw(st.sampled_from(keys))
        post(data, node, region, keys, one, pair[0])
        while node.function.run():
            assert node.hca.budget.steps <= A_ROUND
        if {qp.state for qp in pair} != {QpState.RTS}:
            for qp in pair:
                qp.destroy()
            pair = new_pair(node)
    for one in keys:
        mkey = node.hca.mkeys.get(one.index)
        assert mkey.pd.handle == node.pdn
        assert len(mkey.xlt) <= mkey.xlt_capacity
        assert 0 <= mkey.start <= mkey.end


def post(data, node, region, keys, one, qp):
    """One request: a UMR that may be anything, signatures, or an access through a key."""
    what = data.draw(st.sampled_from(["umr", "umr", "signature", "write", "read"]))
    if what == "umr":
        xlt = data.draw(entries(region, keys))[: data.draw(st.sampled_from([64, 128]))]
        umr(
            qp, one.key, flags=data.draw(flags_of(UmrFlag)), mask=data.draw(flags_of(MkeyMask)),
            xlt=xlt, octwords=len(xlt) // 16, offset=data.draw(OFFSETS), **data.draw(CONTEXTS),
            pd=node.pdn,
        )  # fmt: skip
    elif what == "signature":
        domain = st.sampled_from([None, Dif(), Crc(), Dif(block=4096), Crc(block=4048)])
        ranges = [region.sge(0, data.draw(st.sampled_from([1, 520, 8192])))] * 2
        wrong = {"bsf_size_sbs": data.draw(st.sampled_from([0x80, 0x80, 0x90, 0xFF]))}
        keys[3].post(qp, ranges, data.draw(domain), data.draw(domain), wrong=wrong)
    else:
        remote = one.index << 8 | node.hca.mkeys.get(one.index).variant, data.draw(ADDRESSES)
        size = data.draw(st.sampled_from([1, 8, 520, 4096]))
        (qp.write if what == "write" else qp.read)(remote, region.sge(0, size))

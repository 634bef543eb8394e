"""Physical addresses are the driver's: what a process could reach them by is refused.

Processes send commands of their own (DEVX) and post to queues of their own; both are checked by the
device alone. The driver makes its own queue pairs with fast registration enabled, and no others.
"""

from contextlib import contextmanager

import pytest

from emu.device.cmdif.registry import COMMANDS
from emu.device.errors import CmdError
from emu.driver.command.words import pack64
from emu.driver.keys.by_command import dma_key, indirect_key
from emu.driver.keys.umr import MemoryWindow, umr
from emu.driver.verbs.connect import connect
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode, MkeyMask
from layouts.enums.qp import QpType

pytestmark = pytest.mark.hostile

PA, MTT, KLM, KSM = AccessMode.PA, AccessMode.MTT, AccessMode.KLMS, AccessMode.KSM
PAGE = 4096
SECRET = b"of the kernel's own"
ANY_QPN = 0xFFFFFF


@pytest.fixture
def uid(driver):
    return driver.must(Op.CREATE_UCTX).uid


@pytest.fixture
def pdn(driver, uid):
    return driver.must(Op.ALLOC_PD, uid=uid).pd


PASSED_ON = {
    # Objects, by DEVX or by a verb: what makes, changes, shows and ends them.
    *(Op.CREATE_MKEY, Op.DESTROY_MKEY, Op.QUERY_MKEY),
    *(Op.CREATE_CQ, Op.DESTROY_CQ, Op.MODIFY_CQ, Op.QUERY_CQ),
    *(Op.CREATE_QP, Op.DESTROY_QP, Op.QUERY_QP, Op.RST2INIT_QP, Op.INIT2INIT_QP, Op.INIT2RTR_QP),
    *(Op.RTR2RTS_QP, Op.RTS2RTS_QP, Op.SQERR2RTS_QP, Op.SQD_RTS_QP, Op._2ERR_QP, Op._2RST_QP),
    *(Op.CREATE_RMP, Op.DESTROY_RMP, Op.MODIFY_RMP, Op.QUERY_RMP),
    *(Op.CREATE_SRQ, Op.DESTROY_SRQ, Op.ARM_RQ, Op.QUERY_SRQ),
    *(Op.CREATE_XRC_SRQ, Op.DESTROY_XRC_SRQ, Op.ARM_XRC_SRQ, Op.QUERY_XRC_SRQ),
    *(Op.CREATE_DCT, Op.DESTROY_DCT, Op.DRAIN_DCT, Op.QUERY_DCT),
    Op.SET_PP_RATE_LIMIT,
    *(Op.CREATE_PSV, Op.DESTROY_PSV, Op.ATTACH_TO_MCG, Op.DETACH_FROM_MCG),
    *(Op.ALLOC_PD, Op.DEALLOC_PD, Op.ALLOC_XRCD, Op.DEALLOC_XRCD, Op.ALLOC_UAR, Op.DEALLOC_UAR),
    *(Op.ALLOC_TRANSPORT_DOMAIN, Op.DEALLOC_TRANSPORT_DOMAIN),
    *(Op.ALLOC_Q_COUNTER, Op.DEALLOC_Q_COUNTER, Op.QUERY_Q_COUNTER),
    *(Op.ALLOC_FLOW_COUNTER, Op.DEALLOC_FLOW_COUNTER, Op.QUERY_FLOW_COUNTER),
    *(Op.CREATE_UMEM, Op.DESTROY_UMEM, Op.DESTROY_UCTX),
    *(Op.CREATE_GENERAL_OBJECT, Op.MODIFY_GENERAL_OBJECT, Op.DESTROY_GENERAL_OBJECT),
    *(Op.QUERY_GENERAL_OBJECT, Op.SYNC_STEERING),
    *(Op.CREATE_XRQ, Op.DESTROY_XRQ, Op.QUERY_XRQ, Op.ARM_XRQ),
    # Ethernet queues and steering: raw packets, RSS, flows (DPDK's mlx5 driver makes them all).
    *(Op.CREATE_SQ, Op.DESTROY_SQ, Op.MODIFY_SQ, Op.QUERY_SQ),
    *(Op.CREATE_RQ, Op.DESTROY_RQ, Op.MODIFY_RQ, Op.QUERY_RQ),
    *(Op.CREATE_TIS, Op.DESTROY_TIS, Op.MODIFY_TIS, Op.QUERY_TIS),
    *(Op.CREATE_TIR, Op.DESTROY_TIR, Op.MODIFY_TIR, Op.QUERY_TIR),
    *(Op.CREATE_RQT, Op.DESTROY_RQT, Op.MODIFY_RQT, Op.QUERY_RQT),
    *(Op.CREATE_FLOW_TABLE, Op.DESTROY_FLOW_TABLE, Op.MODIFY_FLOW_TABLE, Op.QUERY_FLOW_TABLE),
    *(Op.CREATE_FLOW_GROUP, Op.DESTROY_FLOW_GROUP, Op.QUERY_FLOW_GROUP),
    *(Op.SET_FLOW_TABLE_ENTRY, Op.DELETE_FLOW_TABLE_ENTRY, Op.QUERY_FLOW_TABLE_ENTRY),
    *(Op.ALLOC_MODIFY_HEADER_CONTEXT, Op.DEALLOC_MODIFY_HEADER_CONTEXT),
    *(Op.ALLOC_PACKET_REFORMAT_CONTEXT, Op.DEALLOC_PACKET_REFORMAT_CONTEXT),
    Op.QUERY_PACKET_REFORMAT_CONTEXT,
    # Questions about the device.
    Op.QUERY_NIC_VPORT_CONTEXT,
    *(Op.QUERY_HCA_CAP, Op.QUERY_ADAPTER, Op.QUERY_ISSI, Op.QUERY_HCA_VPORT_CONTEXT),
    *(Op.QUERY_VPORT_STATE, Op.QUERY_VNIC_ENV, Op.QUERY_VPORT_COUNTER, Op.QUERY_LAG),
    *(Op.QUERY_ESW_VPORT_CONTEXT, Op.QUERY_ESW_FUNCTIONS),
    *(Op.QUERY_CONG_PARAMS, Op.QUERY_CONG_STATUS, Op.QUERY_CONG_STATISTICS),
}  # fmt: skip
"""What the driver sends with the uid of a process (devx.c, and the commands of mlx5_ib's verbs)."""


def test_every_command_is_the_drivers_or_passed_on():
    passed_on = {command.op for command in COMMANDS.values() if not command.privileged}
    assert passed_on == PASSED_ON


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS.values() if command.privileged],
    ids=lambda command: command.name,
)
def test_commands_of_the_driver(driver, uid, refused, command):
    """With the uid of a process they do nothing; some would end the device for everybody."""
    answer = refused(Status.BAD_PARAM_ERR, command.op, _uid=uid)
    assert (
        answer.syndrome
        == CmdError(Status.BAD_PARAM_ERR, "only the driver may send this command").syndrome
    )
    driver.must(Op.QUERY_ADAPTER)


class TestKeys:
    @pytest.fixture
    def umem(self, driver, uid):
        """User memory of one page."""
        pages = driver.memory.pages(PAGE)
        fields = {"umem": {"num_of_mtt": 1}, "extra": pack64([pages[0] | 3])}
        return driver.must(Op.CREATE_UMEM, uid=uid, **fields).umem_id

    def fields(self, pdn, mode, **command):
        context = {
            "pd": pdn, "qpn": ANY_QPN, "access_mode_1_0": mode, "lr": 1, "lw": 1,
            "log_page_size": 12, "length64": int(mode == PA), "len": 0 if mode == PA else PAGE,
            "translations_octword_size": int(mode != PA),
        }  # fmt: skip
        return {"memory_key_mkey_entry": context} | command

    @pytest.mark.parametrize("with_umem", [False, True])
    def test_key_over_everything(self, uid, pdn, umem, refused, with_umem):
        """The driver sets mkey_umem_valid for every process (devx.c: devx_handle_mkey_create)."""
        named = {"mkey_umem_valid": 1, "mkey_umem_id": umem} if with_umem else {}
        fields = self.fields(pdn, PA, uid=uid, **named)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, **fields)

    def test_list_of_addresses(self, uid, pdn, refused):
        fields = self.fields(
            pdn, MTT, uid=uid, translations_octword_actual_size=1, extra=pack64([PAGE, 0])
        )
        refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, **fields)

    def test_user_memory(self, driver, uid, pdn, umem):
        driver.must(
            Op.CREATE_MKEY,
            **self.fields(pdn, MTT, uid=uid, mkey_umem_valid=1, mkey_umem_id=umem),
        )

    @pytest.mark.parametrize("mode", [KLM, KSM])
    def test_list_of_keys(self, driver, uid, pdn, mode):
        driver.must(Op.CREATE_MKEY, **self.fields(pdn, mode, uid=uid))


class TestQueuePairs:
    @pytest.mark.parametrize(
        "qpc",
        [
            {"st": QpType.REG_UMR}, {"st": QpType.QP0}, {"st": QpType.QP1},
            {"st": QpType.RC, "fre": 1}, {"st": QpType.RC, "rlky": 1},
        ],
        ids=["UMR of any domain", "QP0", "QP1", "fast registration", "reserved lkey"],
    )  # fmt: skip
    def test_the_drivers(self, uid, refused, qpc):
        refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, uid=uid, qpc=qpc)

    @pytest.mark.parametrize(
        ("wrong", "status"), [(0, Status.BAD_RES_ERR), (1, Status.BAD_PARAM_ERR)]
    )
    def test_a_targets_reserved_lkey(self, uid, refused, wrong, status):
        """Without it what is wrong is that there is no such domain."""
        context = {"mtu": 3, "rlky": wrong, "pd": 0xABC}
        refused(status, Op.CREATE_DCT, uid=uid, dct_context_entry=context)

    def test_the_drivers_own_target_may_use_it(self, refused):
        context = {"mtu": 3, "rlky": 1, "pd": 0xABC}
        refused(Status.BAD_RES_ERR, Op.CREATE_DCT, dct_context_entry=context)


@contextmanager
def refused_update(qp, key):
    """The request fails, and the key is as it was."""
    mkey = qp.node.hca.mkeys.get(key >> 8)
    before = bytes(mkey.ctx), bytes(mkey.xlt)
    yield
    qp.node.settle()
    (done,) = qp.cq.drain()
    assert done.syndrome == CqeSyndrome.MW_BIND_ERR
    assert (bytes(mkey.ctx), bytes(mkey.xlt)) == before


class TestUpdates:
    """A queue pair without fast registration, as that of every process."""

    @pytest.fixture
    def qp(self, node):
        qp, other = node.queue_pair(fre=0), node.queue_pair(fre=0)
        connect(qp, other)
        return qp

    @pytest.fixture
    def region(self, node):
        return node.region(2 * PAGE, umr_en=1)

    @pytest.fixture
    def secret(self, node):
        (page,) = node.memory.pages(PAGE)
        node.memory.write(page, SECRET)
        return page

    def test_addresses_of_its_own_choice(self, qp, region, secret):
        with refused_update(qp, region.key):
            umr(qp, region.key, flags=0, mask=0, xlt=pack64([secret | 3] * 8))

    @pytest.mark.parametrize(
        ("mask", "context"),
        [
            (MkeyMask.PAGE_SIZE, {"log_page_size": 21}),
            (MkeyMask.LW, {"lw": 1}),
            (MkeyMask.LEN, {"len": 1 << 30}),
            (MkeyMask.START_ADDR, {"start_addr": 0}),
            (MkeyMask.FREE, {"free": 0}),
        ],
        ids=lambda value: value.name if isinstance(value, MkeyMask) else "",
    )
    def test_more_than_was_registered(self, qp, region, mask, context):
        with refused_update(qp, region.key):
            umr(qp, region.key, flags=0, mask=int(mask), **context)

    def test_the_domains_key_over_everything(self, node, qp):
        key = dma_key(node)
        node.hca.mkeys.get(key >> 8).umr_en = True
        with refused_update(qp, key):
            umr(qp, key, flags=0, mask=int(MkeyMask.RW), rw=1)

    def test_windows_and_lists_of_keys(self, node, qp, region):
        """These are what processes change by themselves."""
        region.write(b"through a window")
        window, room = MemoryWindow(node, 1), node.region(64)
        window.bind(qp, region, 0, PAGE)
        listed = indirect_key(node, KLM, [(8, region.key, region.va)], 8, umr_en=1)
        umr(qp, listed, flags=0, mask=int(MkeyMask.LEN), len=4)
        qp.read((window.key, region.va), room.sge(0, 16))
        qp.read((listed, 0), room.sge(16, 4))
        node.settle()
        assert {done.syndrome for done in qp.cq.drain()} == {0}
        assert room.read(0, 20) == b"through a windowthro"

"""What the host holds for a guest: counted, bounded, and given back."""

import gc
import tracemalloc

import pytest
from helpers.device.snapshot import snapshot

from emu.driver.command.bar import enable
from emu.driver.command.words import pack64
from emu.driver.verbs.parts import Parts
from emu.driver.world.memory import Memory
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import PageOp, TeardownProfile
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType

pytestmark = pytest.mark.hostile

GID = b"\xff\x12" + bytes(13) + b"\1"
MTT, KLM, KSM = AccessMode.MTT, AccessMode.KLMS, AccessMode.KSM


@pytest.fixture
def memory():
    return Memory(64 << 20)


class Maker:
    """Has one of each kind made and destroyed."""

    def __init__(self, driver):
        self.driver = driver
        driver.must(Op.ALLOC_XRCD)
        self.parts = Parts(driver)
        self.pdn, self.eqn = self.parts.pdn, driver.create_eq()
        self.cqn = driver.create_cq(self.eqn)
        self.qpn = self.parts.make(QpState.INIT, st=QpType.UD)
        self.page = driver.queue

    def fields(self, kind):
        """Opcode and fields of the command that makes one."""
        driver = self.driver
        return {
            "pd": (Op.ALLOC_PD, {}),
            "uar": (Op.ALLOC_UAR, {}),
            "counter set": (Op.ALLOC_Q_COUNTER, {}),
            "eq": (Op.CREATE_EQ, driver.eq_fields(log_size=8)),
            "cq": (Op.CREATE_CQ, driver.cq_fields(self.eqn, log_size=10)),
            "qp": (Op.CREATE_QP, driver.qp_fields(self.pdn, self.cqn, log_sq_size=10)),
            "rmp": (Op.CREATE_RMP, driver.rmp_fields(self.pdn, log_wq_sz=10)),
            "xrc srq": (Op.CREATE_XRC_SRQ, driver.xrc_srq_fields(self.pdn, 1, self.cqn)),
            "srq": (Op.CREATE_SRQ, driver.srq_fields(self.pdn, log_size=10)),
            "user context": (Op.CREATE_UCTX, {}),
            "psv": (Op.CREATE_PSV, {"pd": self.pdn, "num_psv": 1}),
            "umem": (
                Op.CREATE_UMEM,
                {"umem": {"num_of_mtt": 1500}, "extra": pack64([self.page | 3] * 1500)},
            ),
            "mtt": (Op.CREATE_MKEY, self._mkey(MTT, 1000)),
            "klm": (Op.CREATE_MKEY, self._mkey(KLM, 1000)),
            "ksm": (Op.CREATE_MKEY, self._mkey(KSM, 1000)),
            "signature": (Op.CREATE_MKEY, self._mkey(KLM, 4, bsf_octword_size=4)),
            "multicast": (Op.ATTACH_TO_MCG, {"qpn": self.qpn, "multicast_gid": GID}),
            "firmware page": (
                Op.MANAGE_PAGES,
                {"op_mod": PageOp.GIVE, "input_num_entries": 1, "extra": pack64([self.page])},
            ),
            "resize": (
                Op.MODIFY_CQ,
                {"op_mod": 1, "cqn": self.cqn, "modify_field_select_resize_field_select": 7}
                | driver.cq_fields(self.eqn, log_size=12),
            ),
        }[kind]

    def _mkey(self, mode, octwords, **context):
        context |= {
            "pd": self.pdn, "access_mode_1_0": mode, "translations_octword_size": octwords,
            "len": 1 << 20, "log_page_size": 12, "lr": 1, "qpn": 0xFFFFFF,
        }  # fmt: skip
        return {
            "memory_key_mkey_entry": context,
            "translations_octword_actual_size": octwords,
            "extra": pack64([self.page] * 2 * octwords),
        }

    def destroy(self, kind, answer):
        """Take away what ``make`` has left."""
        op, fields = {
            "pd": (Op.DEALLOC_PD, {"pd": "pd"}),
            "uar": (Op.DEALLOC_UAR, {"uar": "uar"}),
            "counter set": (Op.DEALLOC_Q_COUNTER, {"counter_set_id": "counter_set_id"}),
            "eq": (Op.DESTROY_EQ, {"eq_number": "eq_number"}),
            "cq": (Op.DESTROY_CQ, {"cqn": "cqn"}),
            "qp": (Op.DESTROY_QP, {"qpn": "qpn"}),
            "rmp": (Op.DESTROY_RMP, {"rmpn": "rmpn"}),
            "xrc srq": (Op.DESTROY_XRC_SRQ, {"xrc_srqn": "xrc_srqn"}),
            "srq": (Op.DESTROY_SRQ, {"srqn": "srqn"}),
            "user context": (Op.DESTROY_UCTX, {"uid": "uid"}),
            "psv": (Op.DESTROY_PSV, {"psvn": "psv0_index"}),
            "umem": (Op.DESTROY_UMEM, {"umem_id": "umem_id"}),
            "mtt": (Op.DESTROY_MKEY, {"mkey_index": "mkey_index"}),
            "klm": (Op.DESTROY_MKEY, {"mkey_index": "mkey_index"}),
            "ksm": (Op.DESTROY_MKEY, {"mkey_index": "mkey_index"}),
            "signature": (Op.DESTROY_MKEY, {"mkey_index": "mkey_index"}),
        }[kind]
        self.driver.must(op, **{name: getattr(answer, of) for name, of in fields.items()})

    def undo(self, kind, answer):
        """As ``destroy``, also of what is no object."""
        if kind == "multicast":
            self.driver.must(Op.DETACH_FROM_MCG, qpn=self.qpn, multicast_gid=GID)
        elif kind == "firmware page":
            assert self.driver.take_pages() == 1
        elif kind == "resize":
            op, fields = self.fields(kind)
            back = self.driver.cq_fields(self.eqn, log_size=4)
            self.driver.must(op, **{**fields, **back})
        else:
            self.destroy(kind, answer)


OBJECTS = (
    "pd", "uar", "counter set", "eq", "cq", "qp", "rmp", "xrc srq", "srq", "user context", "psv",
    "umem", "mtt", "klm", "ksm", "signature",
)  # fmt: skip
KINDS = (*OBJECTS, "multicast", "firmware page", "resize")


@pytest.fixture
def maker(driver):
    return Maker(driver)


@pytest.fixture
def ledger(function, maker):
    return function.hca.ledger


@pytest.mark.parametrize("kind", KINDS)
def test_up_to_the_last_byte_and_back(maker, driver, function, ledger, kind):
    before = dict(ledger.accounts)
    op, fields = maker.fields(kind)
    answer = driver.must(op, **fields)
    cost = ledger.used - sum(before.values())
    assert cost > 0
    maker.undo(kind, answer)
    assert ledger.accounts == before
    ledger.limit = ledger.used + cost - 1
    state = snapshot(function.hca)
    assert driver.command(op, **fields).status == Status.LIM_ERR
    assert snapshot(function.hca) == state
    ledger.limit += 1
    driver.must(op, **fields)
    assert ledger.used == ledger.limit


@pytest.mark.parametrize("kind", OBJECTS)
def test_it_covers_what_python_allocates(maker, driver, function, ledger, kind):
    count = 60
    op, fields = maker.fields(kind)

    def made():
        answer = driver.must(op, **fields)
        if kind in ("mtt", "klm"):
            mkey = function.hca.mkeys.need(answer.mkey_index)
            _ = mkey.entries if kind == "mtt" else mkey.ranges  # what the first use makes of it
        return answer

    maker.destroy(kind, made())
    gc.collect()
    before = ledger.used
    tracemalloc.start()
    for _ in range(count):
        made()
    fields.clear()
    gc.collect()
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    charged = ledger.used - before
    assert allocated < charged + 16 * 1024  # what is remembered once, as syndromes are


@pytest.mark.parametrize("umem_id", [None, 1])
def test_rings_in_user_memory_are_paid_for_by_it(driver, function, maker, ledger, umem_id):
    op, fields = maker.fields("umem")
    driver.must(op, **fields)
    op, fields = maker.fields("cq")
    if umem_id is not None:
        fields |= {"cq_umem_valid": 1, "cq_umem_id": umem_id}
    before = ledger.used
    driver.must(op, **fields)
    cost = ledger.used - before
    driver.must(op, **{**fields, "cq_context": fields["cq_context"] | {"log_cq_size": 12}}
                | ({} if umem_id else {"extra": pack64([maker.page] * 64)}))  # fmt: skip
    is_longer = ledger.used - before - cost > cost
    assert is_longer == (umem_id is None)


@pytest.mark.parametrize(
    "profile", [TeardownProfile.GRACEFUL_CLOSE, TeardownProfile.FORCE_CLOSE, None]
)
def test_teardown_and_reset_free_it(cold, driver, function, maker, ledger, profile):
    for kind in KINDS:
        op, fields = maker.fields(kind)
        driver.must(op, **fields)
    if profile is None:
        function.reset()
        enable(function)
        assert function.hca.ledger.used == 0
        cold.probe()
        return
    driver.must(Op.TEARDOWN_HCA, profile=profile)
    pages = {"firmware page": 128} if profile is TeardownProfile.GRACEFUL_CLOSE else {}
    assert function.hca.ledger.accounts == pages


@pytest.mark.pure("it replaces a method of the function")
def test_commands_at_work_are_counted(driver, function, maker, ledger):
    found = set()
    poll = function.poll

    def watched():
        more = poll()
        found.add(ledger.accounts.get("command", 0))
        return more

    function.poll = watched
    extra = pack64([maker.page | 3] * 5000)
    driver.must(Op.CREATE_UMEM, umem={"num_of_mtt": 5000}, extra=extra)
    assert max(found) >= 8 * 5000
    assert "command" not in ledger.accounts

"""Plain handles: protection, XRC and transport domains, and doorbell pages."""

import pytest

from emu.device.objects.domains import FIRST_UAR
from emu.device.objects.memory.memic import AREA_BYTES
from layouts.enums.cmd import Op, Status

KINDS = {
    "pd": (Op.ALLOC_PD, Op.DEALLOC_PD, "pd"),
    "xrcd": (Op.ALLOC_XRCD, Op.DEALLOC_XRCD, "xrcd"),
    "transport domain": (
        Op.ALLOC_TRANSPORT_DOMAIN,
        Op.DEALLOC_TRANSPORT_DOMAIN,
        "transport_domain",
    ),
    "uar": (Op.ALLOC_UAR, Op.DEALLOC_UAR, "uar"),
}


class Handles:
    """ALLOC and DEALLOC of one kind."""

    def __init__(self, driver, kind):
        self.driver = driver
        self.alloc, self.dealloc, self.field = KINDS[kind]

    def make(self):
        return getattr(self.driver.must(self.alloc), self.field)

    def free(self, handle):
        return self.driver.command(self.dealloc, **{self.field: handle}).status


@pytest.fixture
def limits():
    """Room for three domains of each kind."""
    return {"log_max_pd": 2, "log_max_xrcd": 2, "log_max_transport_domain": 2}


@pytest.fixture(params=KINDS)
def handles(driver, request):
    return Handles(driver, request.param)


@pytest.fixture(params=[kind for kind in KINDS if kind != "uar"])
def domains(driver, request):
    return Handles(driver, request.param)


def test_handles_differ_and_are_never_zero(domains):
    made = {domains.make() for _ in range(3)}
    assert len(made) == 3
    assert 0 not in made


def test_freed_handle_is_gone(handles, refused):
    handle = handles.make()
    assert handles.free(handle) == Status.OK
    refused(Status.BAD_RES_STATE_ERR, handles.dealloc, **{handles.field: handle})


@pytest.mark.parametrize("handle", [0, 0x77, 0xFFFFFF])
def test_handle_that_never_was(handles, refused, handle):
    refused(Status.BAD_RES_STATE_ERR, handles.dealloc, **{handles.field: handle})


def test_full_table_and_the_handle_that_is_longest_free(domains, refused):
    made = [domains.make() for _ in range(3)]
    refused(Status.LIM_ERR, domains.alloc)
    for handle in (made[1], made[0]):
        assert domains.free(handle) == Status.OK
    assert [domains.make(), domains.make()] == [made[1], made[0]]
    refused(Status.LIM_ERR, domains.alloc)


def test_one_kind_does_not_free_another(driver):
    xrcd = driver.must(Op.ALLOC_XRCD).xrcd
    assert driver.command(Op.DEALLOC_PD, pd=xrcd).status == Status.BAD_RES_STATE_ERR
    driver.must(Op.DEALLOC_XRCD, xrcd=xrcd)


def test_domain_in_use(driver, refused):
    pd = driver.alloc_pd()
    mkey = driver.create_mkey(pd)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, pd=pd)
    driver.must(Op.DESTROY_MKEY, mkey_index=mkey)
    driver.must(Op.DEALLOC_PD, pd=pd)


def test_xrc_domain_in_use(driver, refused):
    pd, xrcd = driver.alloc_pd(), driver.must(Op.ALLOC_XRCD).xrcd
    srqn = driver.create_xrc_srq(pd, xrcd, driver.create_cq(driver.create_eq()))
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_XRCD, xrcd=xrcd)
    driver.must(Op.DESTROY_XRC_SRQ, xrc_srqn=srqn)
    driver.must(Op.DEALLOC_XRCD, xrcd=xrcd)


def test_doorbell_pages_lie_between_the_registers_and_the_device_memory(driver, function):
    """Pages 0 to 7 carry the initialization segment and the MSI-X structures, the last MEMIC."""
    pages = []
    while (answer := driver.command(Op.ALLOC_UAR)).status == Status.OK:
        pages.append(answer.uar)
    assert answer.status == Status.LIM_ERR
    assert driver.uar == FIRST_UAR
    assert min(pages) > FIRST_UAR
    assert (max(pages) + 1) * 4096 == function.bar_sizes[0] - AREA_BYTES


def test_doorbell_page_goes_before_its_queue(driver):
    """When a process dies, mlx5_ib gives its doorbell pages back first."""
    eqn = driver.create_eq()
    driver.must(Op.DEALLOC_UAR, uar=driver.uar)
    driver.destroy_eq(eqn)


def test_doorbell_after_the_page_is_gone(driver, function, caplog):
    queue = driver.eqs[driver.create_eq()]
    page = driver.must(Op.ALLOC_UAR).uar
    driver.must(Op.DEALLOC_UAR, uar=page)
    driver.write32(page * 4096 + 0x40, queue.eqn << 24)
    assert f"UAR {page:#x}, which is not allocated" in caplog.text
    assert not function.hca.eqs.get(queue.eqn).armed

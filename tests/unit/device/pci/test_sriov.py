"""The SR-IOV capability by its rules, its two views, and the configuration space of a VF."""

import pytest
from helpers.device.pci import Bus
from hypothesis import given
from hypothesis import strategies as st

from emu.device.pci import SPACE_BYTES, SriovLayout
from emu.device.pci.sriov import CAP_ID, FIRST_VF_OFFSET, VF_STRIDE

ARI, EXPRESS, VENDOR_SPECIFIC = 0x000E, 0x10, 0x000B
VF_BAR_BYTES = 1 << 20
CONTROL, INITIAL, TOTAL, NUM, OFFSET, STRIDE = 0x08, 0x0C, 0x0E, 0x10, 0x14, 0x16
DEVICE, SUPPORTED_PAGES, PAGE, BAR = 0x1A, 0x1C, 0x20, 0x24
ENABLE, MEMORY, ARI_HIERARCHY = 1, 8, 0x10
FLR = 0x8000
EXTENDED = 0x100
"""Where extended capabilities begin; below is a counter that changes with each read."""


class Sriov:
    """A PF's capability, addressed by its registers' offsets."""

    def __init__(self, total=4, **options):
        layout = SriovLayout(total, 0x101E, VF_BAR_BYTES)
        self.bus = Bus("connectx6dx", sriov=layout, **options)
        self.at, _ = self.bus.extended_capabilities()[CAP_ID]
        self.space = self.bus.space

    def get(self, offset, length=2):
        return self.bus.get(self.at + offset, length)

    def put(self, offset, value, length=2):
        self.bus.put(self.at + offset, length, value)


@pytest.fixture
def sriov():
    return Sriov()


def test_what_is_advertised(sriov):
    assert (sriov.get(INITIAL), sriov.get(TOTAL), sriov.get(NUM)) == (4, 4, 0)
    assert (sriov.get(OFFSET), sriov.get(STRIDE)) == (FIRST_VF_OFFSET, VF_STRIDE)
    assert sriov.get(DEVICE) == 0x101E
    assert sriov.get(0x04, 4) == 0, "no VF migration"
    assert sriov.get(SUPPORTED_PAGES, 4) == 0x7FF
    assert sriov.get(PAGE, 4) == 1
    assert sriov.get(0x3C, 4) == 0, "no migration state array"
    assert sriov.bus.get(0x0E, 1) == 0, "VFs do not make it a multifunction device"


def test_only_a_pf_that_has_vfs_shows_it():
    assert CAP_ID not in Bus("connectx6dx").extended_capabilities()
    assert Bus("connectx6dx").space.enabled_vfs == 0


def test_enable_needs_both_number_and_bit(sriov):
    sriov.put(CONTROL, ENABLE)
    assert sriov.space.enabled_vfs == 0
    sriov.put(CONTROL, 0)
    sriov.put(NUM, 3)
    assert sriov.space.enabled_vfs == 0
    sriov.put(CONTROL, ENABLE)
    assert sriov.space.enabled_vfs == 3


def test_numvfs_is_fixed_while_vfs_are_enabled(sriov):
    sriov.put(NUM, 2)
    sriov.put(CONTROL, ENABLE | MEMORY)
    sriov.put(NUM, 4)
    assert sriov.get(NUM) == 2
    assert sriov.space.enabled_vfs == 2
    sriov.put(CONTROL, 0)
    sriov.put(NUM, 4)
    assert sriov.get(NUM) == 4


@pytest.mark.parametrize("number", [5, 0x104, 0xFFFF])
def test_numvfs_is_at_most_totalvfs(sriov, number):
    sriov.put(NUM, 1)
    sriov.put(NUM, number)
    assert sriov.get(NUM) == 1


@pytest.mark.parametrize("size", [0x1, 0x2, 0x10, 0x40, 0x100, 0x400])
def test_supported_page_sizes_can_be_set(sriov, size):
    sriov.put(PAGE, size, 4)
    assert sriov.get(PAGE, 4) == size


@pytest.mark.parametrize("size", [0, 0x3, 0x7FF, 0x800, 0xFFFF_FFFF])
def test_other_page_sizes_change_nothing(sriov, size):
    sriov.put(PAGE, 0x10, 4)
    sriov.put(PAGE, size, 4)
    assert sriov.get(PAGE, 4) == 0x10


def test_page_size_is_fixed_while_vfs_are_enabled(sriov):
    sriov.put(NUM, 1)
    sriov.put(CONTROL, ENABLE)
    sriov.put(PAGE, 0x10, 4)
    assert sriov.get(PAGE, 4) == 1


def test_migration_cannot_be_enabled(sriov):
    sriov.put(CONTROL, 0xFFFF)
    assert sriov.get(CONTROL) == ENABLE | MEMORY | ARI_HIERARCHY


def test_memory_space_needs_vf_enable(sriov):
    sriov.put(NUM, 1)
    sriov.put(CONTROL, MEMORY)
    assert not sriov.space.decodes_vf_memory
    sriov.put(CONTROL, ENABLE)
    assert not sriov.space.decodes_vf_memory
    sriov.put(CONTROL, ENABLE | MEMORY)
    assert sriov.space.decodes_vf_memory


def test_vf_bar_sizing(sriov):
    assert sriov.space.vf_bar == 0
    sriov.put(BAR, 0xFFFF_FFFF, 4)
    assert sriov.get(BAR, 4) == 0x1_0000_0000 - VF_BAR_BYTES | 0xC, "64-bit, prefetchable"
    assert sriov.space.is_sizing_vf_bar
    sriov.put(BAR, 0x0800_0000, 4)
    assert not sriov.space.is_sizing_vf_bar
    sriov.put(BAR + 4, 0xFFFF_FFFF, 4)
    assert sriov.get(BAR + 4, 4) == 0xFFFF_FFFF
    assert sriov.space.is_sizing_vf_bar
    sriov.put(BAR + 4, 0x38, 4)
    assert not sriov.space.is_sizing_vf_bar
    assert sriov.space.vf_bar == 0x38_0800_0000
    for number in range(1, 5):
        sriov.put(BAR + 4 + 4 * number, 0xFFFF_FFFF, 4)
        assert sriov.get(BAR + 4 + 4 * number, 4) == 0, "no other BAR"


@pytest.mark.parametrize(
    ("page", "stride"), [(0x1, 1 << 20), (0x10, 1 << 20), (0x100, 1 << 20), (0x400, 4 << 20)]
)
def test_a_vf_bar_is_at_least_a_system_page(sriov, page, stride):
    sriov.put(BAR, 0x0810_0000, 4)
    sriov.put(PAGE, page, 4)
    assert sriov.space.vf_bar_stride == stride
    assert sriov.space.vf_bar == 0x0810_0000 & -stride
    sriov.put(BAR, 0xFFFF_FFFF, 4)
    assert sriov.get(BAR, 4) == 0x1_0000_0000 - stride | 0xC
    assert sriov.space.is_sizing_vf_bar
    sriov.put(BAR, 0x0870_0000, 4)
    assert sriov.space.vf_bar == 0x0870_0000 & -stride


def test_an_flr_and_a_reset_disable_the_vfs(sriov):
    express = sriov.bus.capabilities()[EXPRESS]
    for reset in (lambda: sriov.bus.put(express + 8, 2, FLR), sriov.space.reset):
        sriov.put(NUM, 4)
        sriov.put(CONTROL, ENABLE | MEMORY)
        sriov.put(BAR + 4, 1, 4)
        reset()
        assert sriov.space.enabled_vfs == 0
        assert (sriov.get(NUM), sriov.get(CONTROL), sriov.space.vf_bar) == (0, 0, 0)


def test_a_read_of_the_whole_space_shows_vendor_specific_capabilities(sriov):
    ari, _ = sriov.bus.extended_capabilities()[ARI]
    whole = sriov.space.read(0, SPACE_BYTES)
    parts = sriov.space.read(0, SPACE_BYTES - 4) + sriov.space.read(SPACE_BYTES - 4, 4)
    differing = {at for at in range(EXTENDED, SPACE_BYTES) if whole[at] != parts[at]}
    assert differing == {sriov.at, ari}
    for at in (sriov.at, ari):
        assert int.from_bytes(whole[at : at + 2], "little") == VENDOR_SPECIFIC
    one = Bus("connectx6dx").space
    assert one.read(0, SPACE_BYTES)[EXTENDED:] == one.read(EXTENDED, SPACE_BYTES - EXTENDED)


def test_a_vf_has_no_ids_but_for_a_read_of_the_whole_space():
    vf = Bus("connectx6dx-vf", is_sriov_vf=True)
    plain = Bus("connectx6dx-vf")
    assert vf.space.read(0, SPACE_BYTES)[:4] == plain.space.read(0, 4)
    assert vf.space.read(4, SPACE_BYTES - 4) == vf.space.read(0, SPACE_BYTES)[4:]
    assert vf.get(0, 4) == 0xFFFF_FFFF
    assert (vf.get(0, 2), vf.get(2, 2), vf.get(3, 1)) == (0xFFFF, 0xFFFF, 0xFF)
    assert vf.get(0, 8) == 0xFFFF_FFFF | plain.get(4, 4) << 32
    assert vf.get(2, 4) == 0xFFFF | plain.get(4, 2) << 16
    assert vf.get(4, 4) == plain.get(4, 4)
    assert vf.space.read(0, 0) == b""


@given(offset=st.integers(0, 0x20), length=st.integers(0, 0x30))
def test_any_read_of_a_vf_has_its_length(offset, length):
    assert len(Bus("connectx6dx-vf", is_sriov_vf=True).space.read(offset, length)) == length


@pytest.mark.hostile
@given(writes=st.lists(st.tuples(st.integers(0x180, 0x1C0), st.binary(max_size=72)), max_size=16))
def test_random_writes_never_enable_more_vfs_than_there_are(writes):
    sriov = Sriov()
    for at, data in writes:
        sriov.space.write(at, data)
        assert sriov.space.enabled_vfs <= 4
        assert sriov.get(PAGE, 4) in {1 << log for log in range(11)}, "4 KiB to 4 MiB"
        assert sriov.get(TOTAL) == 4
        assert sriov.space.vf_bar % sriov.space.vf_bar_stride == 0

"""The type 0 header, the capability lists, BAR sizing, resets and error reporting."""

import pytest
from helpers.device.pci import Bus
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.models import MODELS
from emu.device.pci import CLASS_ETHERNET, SPACE_BYTES, Correctable, LinkSpeed, Uncorrectable
from emu.device.pci.registers import Bank, Block, Register, dword, ro, rw, w1c

POWER, VPD, VENDOR, EXPRESS, MSIX = 0x01, 0x03, 0x09, 0x10, 0x11
ATOMIC_REQUESTER = 1 << 6
AER, ACS, ARI, SECONDARY = 0x0001, 0x000D, 0x000E, 0x0019
DEVICE_CONTROL, DEVICE_STATUS = 0x8, 0xA
FLR = 0x8000

# Every bit that a write may leave changed, but for those of the registers in LIVE.
WRITABLE = {
    0x04: 0x0546,  # Command
    0x0C: 0xFF,  # Cache Backlog Size
    0x10: 0xFFFFFFFF_FE000000,  # BAR 0 of 32 MiB
    0x3C: 0xFF,  # Interrupt Backlog
    0x44: 0x3,  # Power State
    0x68: 0x79FF,  # Device Control
    0x70: 0xCB,  # Link Control
    0x88: 0x5F,  # Device Control 2
    0x90: 0xF,  # Link Control 2
    0x9E: 0xC000,  # MSI-X Message Control
    0x108: 0x0057F010,  # Uncorrectable Error Mask
    0x10C: 0x0057F010,  # Uncorrectable Error Severity
    0x114: 0x71C1,  # Correctable Error Mask
}
# What a PF changes by itself: the registers of VPD and of the vendor-specific gateway.
LIVE = {*range(0x4A, 0x50), *range(0xC4, 0xD8)}


@pytest.fixture
def bus():
    return Bus()


@pytest.mark.parametrize("model", MODELS)
def test_header_shows_the_identity(model):
    bus = Bus(model)
    identity = MODELS[model].identity
    assert bus.get(0x00, 4) == identity.device_id << 16 | 0x15B3
    assert bus.get(0x08, 4) == identity.class_code << 8
    assert bus.get(0x2C, 4) == identity.subsystem_id << 16 | 0x15B3
    assert bus.get(0x0E, 1) == 0, "header type 0, one function"
    assert bus.get(0x30, 4) == 0, "no expansion ROM"
    assert bus.get(0x3D, 1) == 0, "no interrupt pin"
    assert bus.get(0x06, 2) & 1 << 4, "has a capability list"


def test_ethernet_class():
    bus = Bus(identity={"class_code": CLASS_ETHERNET, "revision": 0x12})
    assert bus.get(0x08, 4) == 0x02000012


def test_capabilities_of_a_pf_and_a_vf():
    common = {POWER, EXPRESS, MSIX}
    assert set(Bus("connectx6").capabilities()) == common | {VPD, VENDOR}
    assert set(Bus("connectx6-vf").capabilities()) == common


def test_extended_capabilities(bus):
    """As on real adapters, but for SR-IOV, and time measurement on ConnectX-7."""
    extended = bus.extended_capabilities()
    assert extended == {AER: (0x100, 1), ARI: (0x150, 1), SECONDARY: (0x1C0, 1), ACS: (0x230, 1)}
    assert bus.get(0x154, 4) == 0, "no next function"
    assert bus.get(0x1C8, 4) == 0, "no errors on any lane"


def test_capabilities_are_in_the_order_of_real_adapters(bus):
    assert list(bus.capabilities().values()) == [0x60, 0x48, 0x9C, 0xC0, 0x40]


def test_express_endpoint(bus):
    at = bus.capabilities()[EXPRESS]
    assert bus.get(at + 2, 2) == 0x0002, "version 2, endpoint"
    device_capabilities = bus.get(at + 4, 4)
    assert device_capabilities & 1 << 28, "can do function-level reset"
    assert device_capabilities & 1 << 15, "role-based error reporting is required"
    assert bus.get(at + DEVICE_CONTROL, 2) == 0x2810
    assert bus.get(at + 0x24, 4) & 0x380 == 0, "completes no atomic operations"


@pytest.mark.parametrize(
    ("model", "speed"),
    [("connectx5", LinkSpeed.GT_8), ("connectx6", LinkSpeed.GT_16), ("connectx7", LinkSpeed.GT_32)],
)
def test_link_runs_at_its_best(model, speed):
    bus = Bus(model)
    at = bus.capabilities()[EXPRESS]
    assert bus.get(at + 0x0C, 4) & 0x3FF == 16 << 4 | speed
    assert bus.get(at + 0x12, 2) & 0x3FF == 16 << 4 | speed
    speeds = bus.get(at + 0x2C, 4)
    assert speeds & 0xFF == (2 << speed) - 2, "this speed and every lower one"
    assert speeds >> 23 == (0 if speed < LinkSpeed.GT_16 else 3), "may find retimers"
    assert bus.get(at + 0x32, 2) == 0x1E, "equalized"


def test_settings_of_a_vfs_link_are_its_pfs():
    bus = Bus("connectx7-vf", is_sriov_vf=True)
    at = bus.capabilities()[EXPRESS]
    for offset in (DEVICE_CONTROL, 0x10, 0x12, 0x28, 0x30, 0x32):
        bus.put(at + offset, 2, 0xFFFF & ~FLR)
        assert bus.get(at + offset, 2) == 0
    assert bus.get(at + 0x0C, 4) & 0x3FF == 16 << 4 | LinkSpeed.GT_32, "its best link"
    bus.put(at + DEVICE_CONTROL, 2, FLR)
    assert bus.flrs == 1


def test_msix(bus):
    at = bus.capabilities()[MSIX]
    assert bus.get(at + 2, 2) == 63, "neither enabled nor masked"
    assert bus.get(at + 4, 4) == 0x2000
    assert bus.get(at + 8, 4) == 0x3000
    bus.put(at + 2, 2, 0xFFFF)
    assert bus.get(at + 2, 2) == 0xC03F
    bus.put(at + 3, 1, 0x80)
    assert bus.get(at + 2, 2) == 0x803F


def test_command_enables(bus):
    assert (bus.space.memory_enabled, bus.space.bus_master_enabled) == (False, False)
    bus.put(0x04, 2, 0xFFFF)
    assert bus.get(0x04, 2) == 0x0546, "no I/O space, no special cycles"
    assert (bus.space.memory_enabled, bus.space.bus_master_enabled) == (True, True)


def test_d3hot_turns_the_function_off_and_keeps_its_registers(bus):
    control = bus.capabilities()[POWER] + 4
    bus.put(0x04, 2, 6)
    bus.put(control, 2, 3)
    assert bus.space.power_state == 3
    assert (bus.space.memory_enabled, bus.space.bus_master_enabled) == (False, False)
    bus.put(control, 2, 0)
    assert bus.get(0x04, 2) == 6, "NoSoftReset"
    assert bus.space.memory_enabled


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("before", [0, 3])
def test_missing_power_states_are_refused(bus, before, missing):
    control = bus.capabilities()[POWER] + 4
    bus.put(control, 2, before)
    bus.put(control, 1, missing)
    assert bus.get(control, 2) == 0x8 | before


@pytest.mark.parametrize("size", [0x10000, 32 << 20, 2 << 30, 4 << 30, 64 << 30])
def test_bar_sizing(size):
    bus = Bus(bar0_size=size)
    assert bus.get(0x10, 8) == 0xC, "64-bit, prefetchable, memory"
    bus.put(0x10, 4, 0xFFFFFFFF)
    bus.put(0x14, 4, 0xFFFFFFFF)
    mask = bus.get(0x10, 8) & ~0xF
    assert (~mask & (1 << 64) - 1) + 1 == size
    bus.put(0x10, 8, 0x38_0000_0000 | size)
    assert bus.get(0x10, 8) == (0x38_0000_0000 | size) & mask | 0xC
    bus.put(0x18, 16, (1 << 128) - 1)
    assert bus.get(0x18, 16) == 0, "no other BAR"


@pytest.mark.parametrize(
    "options",
    [
        {"bar0_size": 0},
        {"bar0_size": 3 << 20},
        {"bar0_size": 0x3000},
        {"bar0_size": 0x800, "msix_vectors": 8, "msix_table_offset": 0, "msix_pba_offset": 0x400},
        {"bar0_size": 0x2000},
        {"msix_vectors": 0},
        {"msix_vectors": 2049},
        {"msix_vectors": 257},
        {"msix_table_offset": 0x2004},
        {"msix_pba_offset": 0x2000},
        {"msix_pba_offset": 0x3004},
    ],
)
def test_what_cannot_be_described_is_refused(options):
    with pytest.raises(ValueError, match=r"BAR 0|vectors"):
        Bus(**options)


def test_beyond_the_end(bus):
    assert bus.space.read(0xFFE, 4) == b"\0\0\xff\xff"
    assert bus.space.read(0x1000, 2) == b"\xff\xff"
    assert bus.space.read(1 << 63, 8) == b"\xff" * 8
    before = bus.space.read(0xF00, 0x100)
    bus.space.write(0xFFE, b"\xff" * 8)
    bus.space.write(1 << 63, b"\xff")
    assert bus.space.read(0xF00, 0x102) == before + b"\xff\xff"


def test_status_bits_clear_by_one(bus):
    at, _ = bus.extended_capabilities()[AER]
    bus.space.report_error(correctable=True, status_bit=Correctable.BAD_TLP)
    bus.space.report_error(correctable=True, status_bit=Correctable.RECEIVER_ERROR)
    assert bus.get(at + 0x10, 4) == 0x41
    bus.put(at + 0x10, 4, 0)
    assert bus.get(at + 0x10, 4) == 0x41
    bus.put(at + 0x10, 1, 0x40)
    assert bus.get(at + 0x10, 4) == 0x01
    status = bus.capabilities()[EXPRESS] + DEVICE_STATUS
    assert bus.get(status, 2) == 1
    bus.put(status, 2, 0xFFFF)
    assert bus.get(status, 2) == 0


@pytest.mark.parametrize(
    ("error", "device_status"),
    [
        (Uncorrectable.MALFORMED_TLP, 1 << 2),
        (Uncorrectable.COMPLETION_TIMEOUT, 1 << 1),
        (Uncorrectable.UNSUPPORTED_REQUEST, 1 << 1 | 1 << 3),
    ],
)
def test_severity_decides_what_device_status_says(bus, error, device_status):
    at, _ = bus.extended_capabilities()[AER]
    bus.space.report_error(correctable=False, status_bit=error)
    assert bus.get(at + 4, 4) == 1 << error
    assert bus.get(bus.capabilities()[EXPRESS] + DEVICE_STATUS, 2) == device_status


def test_first_error_pointer_keeps_the_first_unmasked_error(bus):
    at, _ = bus.extended_capabilities()[AER]
    bus.put(at + 8, 4, 1 << Uncorrectable.POISONED_TLP)
    for error in (
        Uncorrectable.POISONED_TLP,
        Uncorrectable.COMPLETER_ABORT,
        Uncorrectable.RECEIVER_OVERFLOW,
    ):
        bus.space.report_error(correctable=False, status_bit=error)
    assert bus.get(at + 0x18, 4) & 0x1F == Uncorrectable.COMPLETER_ABORT
    assert bus.get(at + 4, 4) == 1 << 12 | 1 << 15 | 1 << 17


def test_aer_masks_and_severity(bus):
    at, _ = bus.extended_capabilities()[AER]
    assert bus.get(at + 0x08, 4) == 1 << 22
    assert bus.get(at + 0x0C, 4) == 1 << 22 | 1 << 18 | 1 << 17 | 1 << 13 | 1 << 4
    assert bus.get(at + 0x14, 4) == 1 << 14 | 1 << 13
    for register in (0x08, 0x0C):
        bus.put(at + register, 4, 0xFFFFFFFF)
        assert bus.get(at + register, 4) == sum(1 << error for error in Uncorrectable)


@pytest.mark.parametrize(("correctable", "bit"), [(True, 1), (False, 0), (False, 5), (True, 32)])
def test_an_error_that_does_not_exist(bus, correctable, bit):
    with pytest.raises(ValueError, match="error has bit"):
        bus.space.report_error(correctable=correctable, status_bit=bit)


def test_flr_resets_and_then_calls():
    seen = []
    made = Bus(on_flr=lambda: seen.append((made.get(0x04, 2), made.get(0x10, 8))))
    control = made.capabilities()[EXPRESS] + DEVICE_CONTROL
    made.put(0x04, 2, 6)
    made.put(0x10, 8, 0x40_0000_0000)
    made.put(control, 2, 0x7810 | FLR)
    assert seen == [(0, 0xC)]
    assert made.get(control, 2) == 0x2810, "reads as 0"


def test_flr_by_its_upper_byte_alone(bus):
    control = bus.capabilities()[EXPRESS] + DEVICE_CONTROL
    bus.put(control, 1, 0x5F)
    assert bus.flrs == 0
    bus.put(control + 1, 1, 0x80)
    assert bus.flrs == 1


def test_flr_keeps_sticky_bits_and_reset_does_not(bus):
    aer, _ = bus.extended_capabilities()[AER]
    control = bus.capabilities()[EXPRESS] + DEVICE_CONTROL
    bus.space.report_error(correctable=False, status_bit=Uncorrectable.COMPLETER_ABORT)
    bus.put(control, 2, 0x2850)
    bus.put(control, 2, 0x2850 | FLR)
    assert bus.get(aer + 4, 4) == 1 << Uncorrectable.COMPLETER_ABORT
    assert bus.get(aer + 0x18, 4) == Uncorrectable.COMPLETER_ABORT
    assert bus.get(control, 2) == 0x2850, "Max_Payload_Size belongs to the link (6.6.2)"
    assert bus.get(control + 2, 2) == 0, "Device Status is not sticky"
    bus.space.reset()
    assert (bus.get(aer + 4, 4), bus.get(aer + 0x18, 4)) == (0, 0)
    assert bus.get(control, 2) == 0x2810


def test_atomic_operations_may_be_requested(bus):
    """As Linux allows it where a root port completes them (pci_enable_atomic_ops_to_root)."""
    express = bus.capabilities()[EXPRESS]
    control = express + 0x28
    bus.put(control, 2, ATOMIC_REQUESTER)
    assert bus.get(control, 2) == ATOMIC_REQUESTER
    bus.put(express + DEVICE_CONTROL, 2, FLR)
    bus.space.reset()
    assert bus.get(control, 2) == 0


def test_on_flr_may_reset_everything():
    made = Bus(on_flr=lambda: made.space.reset())
    made.put(made.capabilities()[EXPRESS] + DEVICE_CONTROL, 2, FLR)
    assert made.get(made.capabilities()[EXPRESS] + DEVICE_CONTROL, 2) == 0x2810


WRITES = st.lists(
    st.tuples(
        st.integers(0, 0x1A0) | st.integers(0, SPACE_BYTES + 64), st.binary(min_size=0, max_size=72)
    ),
    max_size=12,
)


@settings(deadline=None)
@given(model=st.sampled_from(["connectx6", "connectx6-vf"]), writes=WRITES)
def test_writes_never_change_what_is_read_only_and_reset_restores(model, writes):
    bus = Bus(model)
    pristine = bus.space.read(0, SPACE_BYTES)
    for offset, data in writes:
        bus.space.write(offset, data)
    after = bus.space.read(0, SPACE_BYTES)
    writable = sum(mask << 8 * at for at, mask in WRITABLE.items()).to_bytes(SPACE_BYTES, "little")
    live = set() if bus.identity.is_vf else LIVE
    for at in set(range(SPACE_BYTES)) - live:
        assert (after[at] ^ pristine[at]) & ~writable[at] == 0, hex(at)
    bus.space.reset()
    assert bus.space.read(0, SPACE_BYTES) == pristine


def test_every_writable_bit_can_be_written():
    bus = Bus("connectx6-vf")
    for at, mask in WRITABLE.items():
        width = (mask.bit_length() + 7) // 8
        for value in (0, mask):
            bus.put(at, width, value)
            assert bus.get(at, width) & mask == value, hex(at)


@settings(deadline=None)
@given(
    accesses=st.lists(
        st.tuples(st.integers(0, 1 << 64), st.integers(0, 5000), st.binary(max_size=5000)),
        max_size=8,
    )
)
def test_any_access_anywhere_is_answered(accesses):
    bus = Bus()
    for offset, length, data in accesses:
        assert len(bus.space.read(offset, length)) == length
        bus.space.write(offset, memoryview(data))
        assert len(bus.space.read(offset % SPACE_BYTES, length)) == length


@given(
    offset=st.integers(0, 0x13F),
    length=st.integers(1, 64),
)
def test_a_wide_read_is_the_narrow_reads_in_a_row(offset, length):
    bus = Bus("connectx6-vf")
    wide = bus.space.read(offset, length)
    assert wide == b"".join(bus.space.read(offset + at, 1) for at in range(length))


def test_registers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="does not fit"):
        dword("r", 0, ro("wide", 30, 3, 0))
    with pytest.raises(ValueError, match="does not fit"):
        dword("r", 0, ro("value", 0, 3, 8))
    with pytest.raises(ValueError, match="does not fit"):
        dword("r", 0, rw("a", 0, 4), w1c("b", 3))
    first, second = dword("a", 0), Register("b", 3, 1)
    with pytest.raises(ValueError, match="overlaps or leaves"):
        Bank([(0, Block("x", 8, (first, second)))])
    with pytest.raises(ValueError, match="overlaps or leaves"):
        Bank([(0, Block("x", 2, (first,)))])

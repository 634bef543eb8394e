"""Vital Product Data, read and checked the way drivers/pci/vpd.c does."""

from dataclasses import replace

import pytest
from helpers.device.pci import GUID, Bus
from hypothesis import given
from hypothesis import strategies as st

from emu.device.models import MODELS
from emu.device.pci.vpd import build_image

FLAG = 0x8000
IDENTIFIER, READ_ONLY, END = 0x82, 0x90, 0x78


class VpdReader:
    """drivers/pci/vpd.c: pci_vpd_read and pci_vpd_write."""

    def __init__(self, bus):
        self.bus = bus
        self.at = bus.capabilities()[0x03]

    def word(self, position):
        self.bus.put(self.at + 2, 2, position)
        assert self.bus.get(self.at + 2, 2) & FLAG, "never waits"
        return self.bus.get(self.at + 4, 4).to_bytes(4, "little")

    def byte(self, position):
        return self.word(position & ~3)[position & 3]

    def write(self, position, value):
        self.bus.put(self.at + 4, 4, value)
        self.bus.put(self.at + 2, 2, position | FLAG)
        assert not self.bus.get(self.at + 2, 2) & FLAG, "never waits"

    def image(self):
        """All resources up to the end tag (pci_vpd_size)."""
        off = 0
        while self.byte(off) != END:
            assert self.byte(off) in (IDENTIFIER, READ_ONLY), hex(off)
            off += 3 + (self.byte(off + 1) | self.byte(off + 2) << 8)
        return b"".join(self.word(at) for at in range(0, off + 1, 4))[: off + 1]


def resources(image):
    found, at = {}, 0
    while image[at] != END:
        size = int.from_bytes(image[at + 1 : at + 3], "little")
        found[image[at]] = (at + 3, image[at + 3 : at + 3 + size])
        at += 3 + size
    return found


def keywords(section):
    found, at = {}, 0
    while at < len(section):
        size = section[at + 2]
        found[section[at : at + 2].decode()] = (at + 3, section[at + 3 : at + 3 + size])
        at += 3 + size
    return found


def check_sum(image):
    """pci_vpd_check_csum: all bytes up to and including RV's first sum to 0."""
    start, section = resources(image)[READ_ONLY]
    at, _ = keywords(section)["RV"]
    return sum(image[: start + at + 1]) & 0xFF


def test_image_through_the_registers():
    bus = Bus("connectx6")
    image = VpdReader(bus).image()
    found = resources(image)
    assert found[IDENTIFIER][1] == b"ConnectX-6, emulated by mlx5emu"
    fields = {name: value for name, (_, value) in keywords(found[READ_ONLY][1]).items()}
    assert list(fields) == ["PN", "EC", "V2", "SN", "V3", "VA", "V0", "RV"]
    assert fields["V0"] == b"PCIeGen4 x16"
    assert fields["V2"] == fields["PN"]
    assert fields["PN"] == b"MLX5EMU-CX6"
    assert fields["SN"] == f"EMU{GUID:016X}".encode()
    assert fields["V3"] == bus.identity.board_uuid.encode()
    assert check_sum(image) == 0


def test_boards_are_told_apart_and_known_again():
    identity = MODELS["connectx6"].identity
    one, two = identity.with_guid(1), identity.with_guid(2)
    assert one.board_uuid != two.board_uuid
    assert one.serial_number != two.serial_number
    assert one == identity.with_guid(1)


def test_a_text_that_is_too_long():
    """Its length is one byte."""
    identity = MODELS["connectx6"].identity
    assert build_image(replace(identity, part_number="p" * 255))
    with pytest.raises(ValueError, match="at most 255"):
        build_image(replace(identity, part_number="p" * 256))


def test_writes_are_taken_and_dropped():
    reader = VpdReader(Bus())
    before = reader.image()
    reader.write(0, 0xDEADBEEF)
    reader.write(0x7FFC, 0xDEADBEEF)
    assert reader.image() == before


def test_address_written_by_bytes_starts_with_the_flag():
    reader = VpdReader(Bus())
    third = reader.word(8)
    reader.word(0)
    reader.bus.put(reader.at + 2, 1, 8)
    assert reader.bus.get(reader.at + 2, 2) & FLAG, "not even begun"
    assert reader.bus.get(reader.at + 4, 4).to_bytes(4, "little") != third
    reader.bus.put(reader.at + 3, 1, 0)
    assert reader.bus.get(reader.at + 4, 4).to_bytes(4, "little") == third


def test_past_the_image_is_zero():
    assert VpdReader(Bus()).word(0x7FFC) == bytes(4)


@given(
    name=st.text(st.characters(codec="ascii"), max_size=255),
    part=st.text(st.characters(codec="ascii"), max_size=255),
    serial=st.text(st.characters(codec="ascii"), max_size=255),
)
def test_any_strings_make_a_valid_image(name, part, serial):
    identity = replace(
        MODELS["connectx6"].identity, product_name=name, part_number=part, serial_number=serial
    )
    image = build_image(identity)
    assert len(image) % 4 == 0
    assert check_sum(image) == 0
    fields = keywords(resources(image)[READ_ONLY][1])
    assert (fields["PN"][1], fields["SN"][1]) == (part.encode(), serial.encode())


@pytest.mark.parametrize("text", ["x" * 256, "ConnectX-6 ™"])
def test_strings_that_vpd_cannot_hold(text):
    with pytest.raises(ValueError):
        build_image(replace(MODELS["connectx6"].identity, part_number=text))

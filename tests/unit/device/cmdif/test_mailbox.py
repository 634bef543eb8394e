"""Mailbox chains by themselves: walking, gathering, scattering, signing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.cmdif.mailbox import (
    MAX_COMMAND_BYTES,
    DeliveryError,
    check_signatures,
    gather,
    scatter,
    sign,
    walk,
    xor8,
)
from emu.device.rounds.portions import finish
from emu.driver.world.memory import Memory
from layouts.cmd import INLINE_BYTES, MAILBOX_DATA_BYTES, cmd_prot_block
from layouts.enums.cmd import DeliveryStat

IN, OUT = DeliveryStat.IN_LENGTH_ERR, DeliveryStat.OUT_LENGTH_ERR
TOKEN = 0x5A


@pytest.fixture
def memory():
    return Memory(size=1 << 20)


def chain(memory, count):
    """Addresses of ``count`` linked blocks."""
    blocks = [memory.alloc(1024, 1024) for _ in range(count)]
    for number, address in enumerate(blocks):
        block = cmd_prot_block.new(block_num=number, token=TOKEN)
        block.next = blocks[number + 1] if number + 1 < count else 0
        memory.write(address, block.buf)
    return blocks


def change(memory, address, **fields):
    block = cmd_prot_block.view(bytearray(memory.read(address, cmd_prot_block.size)))
    block.assign(fields)
    memory.write(address, block.buf)


def refusal(memory, *arguments):
    with pytest.raises(DeliveryError) as caught:
        finish(walk(memory, *arguments))
    return caught.value.status


@pytest.mark.parametrize(
    ("length", "count"), [(0, 0), (16, 0), (17, 1), (16 + 512, 1), (16 + 513, 2), (16 + 5120, 10)]
)
@pytest.mark.parametrize("side", [IN, OUT])
def test_as_many_blocks_as_the_length_needs(memory, side, length, count):
    blocks = chain(memory, 12)
    assert finish(walk(memory, blocks[0], length, TOKEN, side)) == blocks[:count]


def test_output_chain_that_ends_early(memory):
    blocks = chain(memory, 2)
    assert refusal(memory, blocks[0], 16 + 1025, TOKEN, OUT) == OUT
    assert refusal(memory, 0, 17, TOKEN, OUT) == OUT


def test_input_is_what_its_chain_has(memory):
    blocks = chain(memory, 2)
    assert finish(walk(memory, blocks[0], 16 + 1025, TOKEN, IN)) == blocks
    assert finish(walk(memory, 0, 17, TOKEN, IN)) == []
    assert len(finish(gather(memory, bytes(16), blocks, 16 + 1025))) == 16 + 1024


@pytest.mark.parametrize("side", [IN, OUT])
def test_longer_than_any_command(memory, side):
    """No block of it is looked at."""
    with pytest.raises(DeliveryError, match=f"at most {MAX_COMMAND_BYTES}") as caught:
        finish(walk(memory, 0, MAX_COMMAND_BYTES + 1, TOKEN, side))
    assert caught.value.status == side


def test_misalignment_names_its_side(memory):
    assert refusal(memory, 0x101, 17, TOKEN, IN) == DeliveryStat.IN_PTR_ALIGN_ERR
    assert refusal(memory, 0x101, 17, TOKEN, OUT) == DeliveryStat.OUT_PTR_ALIGN_ERR


@pytest.mark.hostile
def test_circle(memory):
    blocks = chain(memory, 3)
    change(memory, blocks[2], next=blocks[0])
    assert refusal(memory, blocks[0], MAX_COMMAND_BYTES, TOKEN, IN) == DeliveryStat.BAD_BLK_NUM_ERR


def test_foreign_token(memory):
    blocks = chain(memory, 3)
    change(memory, blocks[1], token=1)
    assert refusal(memory, blocks[0], 16 + 1500, TOKEN, IN) == DeliveryStat.TOK_ERR


@pytest.mark.parametrize("side", [IN, OUT])
@pytest.mark.parametrize("revoked", [0, 4096])
def test_block_must_be_guest_memory_with_its_data_and_its_control_part(memory, side, revoked):
    """A block at a page's end has its control part on the next page."""
    page = memory.alloc(8192)
    address = page + 4096 - MAILBOX_DATA_BYTES
    memory.write(address, cmd_prot_block.new(token=TOKEN).buf)
    assert finish(walk(memory, address, 17, TOKEN, side)) == [address]
    memory.revoke(page + revoked)
    assert refusal(memory, address, 17, TOKEN, side) == DeliveryStat.FW_ERR


@given(data=st.binary(max_size=2000))
@settings(deadline=None)
def test_what_is_scattered_is_gathered(data):
    memory = Memory(size=1 << 16)
    blocks = chain(memory, 4)
    blocks = finish(walk(memory, blocks[0], len(data), TOKEN, OUT))
    finish(scatter(memory, blocks, data))
    inline = data[:INLINE_BYTES].ljust(16, b"\0")
    assert finish(gather(memory, inline, blocks, len(data))) == data


def test_scattering_keeps_the_links(memory):
    blocks = chain(memory, 2)
    before = [memory.read(address + MAILBOX_DATA_BYTES, 64) for address in blocks]
    finish(scatter(memory, blocks, bytes(range(256)) * 4))
    assert [memory.read(address + MAILBOX_DATA_BYTES, 64) for address in blocks] == before


@given(data=st.binary(min_size=512, max_size=512), at=st.integers(0, 575), bit=st.integers(0, 7))
@settings(deadline=None)
def test_signature_finds_any_flipped_bit(data, at, bit):
    memory = Memory(size=1 << 16)
    (address,) = chain(memory, 1)
    change(memory, address, data=data)
    finish(sign(memory, [address]))
    finish(check_signatures(memory, [address]))
    byte = memory.read(address + at, 1)[0]
    memory.write(address + at, bytes([byte ^ 1 << bit]))
    with pytest.raises(DeliveryError) as caught:
        finish(check_signatures(memory, [address]))
    assert caught.value.status == DeliveryStat.SIGNAT_ERR


def test_xor_of_nothing_and_of_everything():
    assert xor8(b"") == 0
    assert xor8(bytes(range(256)) + b"\xff") == 0xFF


def test_the_control_part_has_a_signature_of_its_own(memory):
    """One of the whole block does not make up for it."""
    (address,) = chain(memory, 1)
    finish(sign(memory, [address]))
    block = cmd_prot_block.view(bytearray(memory.read(address, cmd_prot_block.size)))
    change(memory, address, ctrl_sig=block.ctrl_sig ^ 1, sig=block.sig ^ 1)
    assert xor8(memory.read(address, cmd_prot_block.size)) == 0xFF
    with pytest.raises(DeliveryError) as caught:
        finish(check_signatures(memory, [address]))
    assert caught.value.status == DeliveryStat.SIGNAT_ERR

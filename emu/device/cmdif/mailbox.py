"""Command mailboxes: reading a chain, writing one, and their signatures.

A command's first 16 bytes are in the queue entry, the rest in blocks of 512 bytes that the driver
has linked beforehand (PRM "Command mailboxes"; core/cmd.c:mlx5_copy_to_msg, calc_block_sig). A
chain is walked once, before the command runs, with a check of every link; a circular chain fails on
a wrong block number. A chain may have thousands of blocks, so all work on it runs in steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emu.device.ports import Buffer, DmaError, GuestMemory
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import BLOCKS_PER_PORTION
from layouts.cmd import INLINE_BYTES, MAILBOX_DATA_BYTES, cmd_prot_block
from layouts.enums.cmd import DeliveryStat

MAX_COMMAND_BYTES: Final = 8 << 20
"""Longest accepted input or output, in bytes: twice the largest page list of CREATE_MKEY."""


_BLOCK_BYTES: Final = cmd_prot_block.size
_LINK: Final = cmd_prot_block.packer("next", "block_num", "token")
_CTRL_OFFSET: Final = MAILBOX_DATA_BYTES
_ALIGNMENT: Final = MAILBOX_DATA_BYTES


class DeliveryError(Exception):
    """A command is not accepted and does not run; ``status`` is its delivery status."""

    def __init__(self, status: DeliveryStat, why: str) -> None:
        super().__init__(why)
        self.status = status


def xor8(data: Buffer) -> int:
    """Return the exclusive or of all bytes; 0xff for correctly signed data."""
    whole = int.from_bytes(data, "big")
    bits = 1 << max(len(data) * 8 - 1, 0).bit_length()
    while bits > 8:  # fold one half onto the other
        bits >>= 1
        whole = whole >> bits ^ whole & (1 << bits) - 1
    return whole


def walk(
    memory: GuestMemory, pointer: int, length: int, token: int, side: DeliveryStat
) -> Portions[list[int]]:
    """Return the addresses of the blocks that carry ``length`` bytes beyond the inline ones.

    Raises DeliveryError: ``side`` (IN_LENGTH_ERR or OUT_LENGTH_ERR) above MAX_COMMAND_BYTES and for
    an output chain that is too short, IN_PTR_ALIGN_ERR or OUT_PTR_ALIGN_ERR, and the errors of
    :func:`_next_block`. An input chain may be too short; the input is then the data of the existing
    blocks.

    Examples: iPXE's golan.c declares the length of a context for 2RST_QP, without a block.
    OpenBSD's if_mcx.c counts the page list of CREATE_SQ twice and links the blocks of one.
    """
    if length > MAX_COMMAND_BYTES:
        raise DeliveryError(side, f"{length} bytes, at most {MAX_COMMAND_BYTES}")
    misaligned = (
        DeliveryStat.IN_PTR_ALIGN_ERR
        if side is DeliveryStat.IN_LENGTH_ERR
        else DeliveryStat.OUT_PTR_ALIGN_ERR
    )
    blocks: list[int] = []
    for number in range(-(-max(length - INLINE_BYTES, 0) // MAILBOX_DATA_BYTES)):
        if number and not number % BLOCKS_PER_PORTION:
            yield
        if not pointer:
            if side is DeliveryStat.IN_LENGTH_ERR:
                break
            raise DeliveryError(side, f"mailbox chain ends before block {number}")
        if pointer % _ALIGNMENT:
            raise DeliveryError(misaligned, f"mailbox block {number} at {pointer:#x}")
        blocks.append(pointer)
        pointer = _next_block(memory, pointer, number, token, side)
    return blocks


def _next_block(
    memory: GuestMemory, address: int, number: int, token: int, side: DeliveryStat
) -> int:
    """Check one block before the command runs, and return the address of the next; 0 ends a chain.

    Raises DeliveryError: BAD_BLK_NUM_ERR for a wrong block number, TOK_ERR for a wrong token.
    FW_ERR for memory that is not granted: a block of an output must be writable.
    """
    try:
        following, block_num, block_token = _LINK.unpack(memory.read(address, _LINK.size))
        if side is DeliveryStat.OUT_LENGTH_ERR:
            memory.view(address, MAILBOX_DATA_BYTES)
    except DmaError as error:
        raise DeliveryError(DeliveryStat.FW_ERR, f"mailbox block {number}: {error}") from None
    if block_num != number:
        raise DeliveryError(
            DeliveryStat.BAD_BLK_NUM_ERR, f"mailbox block {number} has block_num {block_num}"
        )
    if block_token != token:
        raise DeliveryError(
            DeliveryStat.TOK_ERR, f"mailbox block {number}: token {block_token:#x}, not {token:#x}"
        )
    return int(following)


def gather(
    memory: GuestMemory, inline: bytes, blocks: Sequence[int], length: int
) -> Portions[bytearray]:
    """Return the input: the inline bytes and the blocks' contents, at most ``length`` bytes.

    Fewer bytes if the chain is shorter. Raises DmaError.
    """
    data = bytearray(inline[:length])
    for first in range(0, len(blocks), BLOCKS_PER_PORTION):
        if first:
            yield
        for address in blocks[first : first + BLOCKS_PER_PORTION]:
            size = min(MAILBOX_DATA_BYTES, length - len(data))
            data += memory.read(address, size)
    return data


def scatter(memory: GuestMemory, blocks: Sequence[int], output: Buffer) -> Portions[None]:
    """Write the bytes of an output beyond the inline ones into its blocks. Raises DmaError."""
    at = INLINE_BYTES
    for first in range(0, len(blocks), BLOCKS_PER_PORTION):
        if first:
            yield
        for address in blocks[first : first + BLOCKS_PER_PORTION]:
            memory.write(address, output[at : at + MAILBOX_DATA_BYTES])
            at += MAILBOX_DATA_BYTES


def check_signatures(memory: GuestMemory, blocks: Sequence[int]) -> Portions[None]:
    """Raise DeliveryError with SIGNAT_ERR for the first block with a bad signature.

    Both signatures count, that of the control fields and that of the whole block. Raises DmaError.
    """
    for first in range(0, len(blocks), BLOCKS_PER_PORTION):
        if first:
            yield
        for address in blocks[first : first + BLOCKS_PER_PORTION]:
            block = memory.read(address, _BLOCK_BYTES)
            if xor8(block[_CTRL_OFFSET:-1]) != 0xFF or xor8(block) != 0xFF:
                raise DeliveryError(DeliveryStat.SIGNAT_ERR, f"mailbox block at {address:#x}")


def sign(memory: GuestMemory, blocks: Sequence[int]) -> Portions[None]:
    """Write both signatures into each block of an output in guest memory. Raises DmaError."""
    for first in range(0, len(blocks), BLOCKS_PER_PORTION):
        if first:
            yield
        for address in blocks[first : first + BLOCKS_PER_PORTION]:
            block = cmd_prot_block.view(bytearray(memory.read(address, _BLOCK_BYTES)))
            block.ctrl_sig = block.sig = 0
            block.ctrl_sig = ~xor8(block.buf[_CTRL_OFFSET:-1]) & 0xFF
            block.sig = ~xor8(block.buf) & 0xFF
            memory.write(address, block.buf)

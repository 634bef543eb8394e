"""Command mailboxes: reading a chain in, writing one out, and its signatures.

A command's first 16 bytes travel in the queue entry, the rest in blocks of 512 that the driver has
linked beforehand (PRM "Command mailboxes"; core/cmd.c:mlx5_copy_to_msg, calc_block_sig). A chain is
walked once, before the command runs, and every link is checked on the way: a wrong block number
also ends a circular chain.
"""

from __future__ import annotations

from functools import reduce
from operator import xor

from emu.ports import Buffer, DmaError, GuestMemory
from layouts.cmd import INLINE_BYTES, MAILBOX_DATA_BYTES, cmd_prot_block
from layouts.enums import Delivery

MAX_COMMAND_BYTES = 8 << 20
"""Longest input or output taken: twice what the largest page list of CREATE_MKEY needs."""

_CTRL_OFFSET = MAILBOX_DATA_BYTES
_ALIGNMENT = MAILBOX_DATA_BYTES


class DeliveryError(Exception):
    """A command could not be taken: the delivery status says why; the command did not run."""

    def __init__(self, status: Delivery, why: str) -> None:
        super().__init__(why)
        self.status = status


def xor8(data: Buffer) -> int:
    """The exclusive or of all bytes; 0xff for anything correctly signed."""
    return reduce(xor, data, 0)


def walk(memory: GuestMemory, pointer: int, length: int, token: int, side: Delivery) -> list[int]:
    """The addresses of the blocks that carry ``length`` bytes beyond the inline ones.

    ``side`` is IN_LENGTH_ERR or OUT_LENGTH_ERR, and names the side in what is raised.
    """
    if length > MAX_COMMAND_BYTES:
        raise DeliveryError(side, f"{length} bytes are more than any command has")
    misaligned = (
        Delivery.IN_PTR_ALIGN_ERR if side is Delivery.IN_LENGTH_ERR else Delivery.OUT_PTR_ALIGN_ERR
    )
    blocks: list[int] = []
    for number in range(-(-max(length - INLINE_BYTES, 0) // MAILBOX_DATA_BYTES)):
        if not pointer:
            raise DeliveryError(side, f"mailbox chain ends before block {number}")
        if pointer % _ALIGNMENT:
            raise DeliveryError(misaligned, f"mailbox block {number} at {pointer:#x}")
        blocks.append(pointer)
        pointer = _next_block(memory, pointer, number, token, side)
    return blocks


def _next_block(memory: GuestMemory, address: int, number: int, token: int, side: Delivery) -> int:
    """Check one block, all of it: once a command runs, its output must have a place to go."""
    try:
        block = cmd_prot_block.view(memory.read(address, cmd_prot_block.size))
        if side is Delivery.OUT_LENGTH_ERR:
            memory.view(address, MAILBOX_DATA_BYTES)
    except DmaError as error:
        raise DeliveryError(Delivery.FW_ERR, f"mailbox block {number}: {error}") from None
    if block.block_num != number:
        raise DeliveryError(
            Delivery.BAD_BLK_NUM_ERR, f"mailbox block {number} says it is {block.block_num}"
        )
    if block.token != token:
        raise DeliveryError(
            Delivery.TOK_ERR, f"mailbox block {number}: token {block.token:#x}, not {token:#x}"
        )
    return int(block.next)


def gather(memory: GuestMemory, inline: bytes, blocks: list[int], length: int) -> bytearray:
    """The whole input: the inline bytes and what the blocks carry."""
    data = bytearray(inline[:length])
    for address in blocks:
        size = min(MAILBOX_DATA_BYTES, length - len(data))
        data += memory.read(address, size)
    return data


def scatter(memory: GuestMemory, blocks: list[int], output: Buffer) -> None:
    """Write what goes beyond the inline bytes of an output into its blocks."""
    at = INLINE_BYTES
    for address in blocks:
        memory.write(address, output[at : at + MAILBOX_DATA_BYTES])
        at += MAILBOX_DATA_BYTES


def check_signatures(memory: GuestMemory, blocks: list[int]) -> None:
    """Raise SIGNAT_ERR for a block whose control part or whole is not signed."""
    for address in blocks:
        block = memory.read(address, cmd_prot_block.size)
        if xor8(block[_CTRL_OFFSET:-1]) != 0xFF or xor8(block) != 0xFF:
            raise DeliveryError(Delivery.SIGNAT_ERR, f"mailbox block at {address:#x}")


def sign(memory: GuestMemory, blocks: list[int]) -> None:
    """Sign the blocks of an output."""
    for address in blocks:
        block = cmd_prot_block.view(bytearray(memory.read(address, cmd_prot_block.size)))
        block.ctrl_sig = block.sig = 0
        block.ctrl_sig = ~xor8(block.buf[_CTRL_OFFSET:-1]) & 0xFF
        block.sig = ~xor8(block.buf) & 0xFF
        memory.write(address, block.buf)

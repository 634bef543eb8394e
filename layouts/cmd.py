"""Command interface: queue entry, mailbox block and the header of every command.

Source: PRM "Command interface"; device.h (``mlx5_cmd_layout``, ``mlx5_cmd_prot_block``) and
core/cmd.c of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

INLINE_BYTES = 16
"""Number of input and output bytes in the queue entry itself."""

MAILBOX_DATA_BYTES = 512
"""Number of data bytes in one mailbox block."""

CMD_TYPE_PCIE = 7
"""Command type of PCI functions, the only one accepted."""

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class CmdIn(Prm, abstract=True):
    opcode = bits(16); uid = bits(16); _ = rsvd(16); op_mod = bits(16)

class CmdInNoUid(Prm, abstract=True):
    opcode = bits(16); _ = rsvd(32); op_mod = bits(16)

class VportIn(CmdInNoUid, abstract=True):
    """Head of a command about a vPort: the sender's own, or another one."""

    other_vport = bits(1); _ = rsvd(15); vport_number = bits(16)

class CmdOut(Prm, abstract=True):
    status = bits(8); _ = rsvd(24); syndrome = bits(32)

class cmd_layout(Prm, c_name="mlx5_cmd_layout"):
    type = bits(8); _ = rsvd(24); inlen = bits(32); in_ptr = bits(64); in_ = octets(16)
    out = octets(16); out_ptr = bits(64); outlen = bits(32)
    token = bits(8); sig = bits(8); _ = rsvd(8); status_own = bits(8)

class cmd_prot_block(Prm, c_name="mlx5_cmd_prot_block"):
    data = octets(512); _ = rsvd(384); next = bits(64); block_num = bits(32)
    _ = rsvd(8); token = bits(8); ctrl_sig = bits(8); sig = bits(8)

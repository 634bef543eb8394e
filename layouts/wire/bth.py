"""InfiniBand packets: their headers. ``packet_ops.py`` lists the headers of each opcode.

Source: IBTA volume 1, chapters 7.7 (LRH), 8.3 (GRH), 9.2 to 9.4 (transport headers, opcodes) and
annex A14 (XRC). A packet is LRH, optional GRH, BTH, the opcode's extension headers, payload padded
to four bytes, and the invariant CRC. The CRC is sent as zero and not checked: the emulated wires do
not corrupt packets. The variant CRC belongs to a link and is left out.

Fields that share a word are declared as that word, like in the driver's own segments; the masks are
below. The driver has a type for the global header alone.
"""

from __future__ import annotations

from enum import IntEnum

from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the specification's figures.
# fmt: off

class lrh(Prm):
    vl_lver = bits(8); sl_lnh = bits(8); dlid = bits(16); pkt_len = bits(16); slid = bits(16)

class grh(Prm, c_name="ib_grh"):
    version_tclass_flow = bits(32); paylen = bits(16); next_hdr = bits(8); hop_limit = bits(8)
    sgid = octets(16); dgid = octets(16)

class bth(Prm):
    opcode = bits(8); se_m_pad_tver = bits(8); p_key = bits(16); dest_qp = bits(32)
    a_psn = bits(32)

class deth(Prm): q_key = bits(32); src_qp = bits(32)
class reth(Prm): va = bits(64); r_key = bits(32); dma_len = bits(32)
class aeth(Prm): syndrome_msn = bits(32)
class atomic_eth(Prm): va = bits(64); r_key = bits(32); swap_add = bits(64); compare = bits(64)

class masked_atomic_eth(Prm):
    """Our own header of masked atomics: an AtomicETH with the further fields behind it.

    ConnectX's format is not public. Known is only that the masks are in the extended header and
    that the response is an ordinary atomic's (Linux commit 5e80ba8ff0bd). ``dma_len`` is the size
    of the operands in bytes. In a masked FETCH_ADD ``compare`` has the top bits of the fields, and
    the masks are zero.
    """

    va = bits(64); r_key = bits(32); swap_add = bits(64); compare = bits(64); dma_len = bits(32)
    swap_add_mask = bits(64); compare_mask = bits(64)

class atomic_ack_eth(Prm): original = bits(64)
class imm_dt(Prm): immediate = bits(32)
class ieth(Prm): r_key = bits(32)
class xrceth(Prm): xrc_srq = bits(32)

class cnp(Prm):
    """Fields behind the BTH of a congestion notification packet (A17.9.3)."""

    _ = rsvd(128)

# fmt: on

LRH = lrh.packer("vl_lver", "sl_lnh", "dlid", "pkt_len", "slid")
GRH = grh.packer("version_tclass_flow", "paylen", "next_hdr", "hop_limit", "sgid", "dgid")
BTH = bth.packer("opcode", "se_m_pad_tver", "p_key", "dest_qp", "a_psn")
DETH = deth.packer("q_key", "src_qp")
RETH = reth.packer("va", "r_key", "dma_len")
AETH = aeth.packer("syndrome_msn")
ATOMIC_ETH = atomic_eth.packer("va", "r_key", "swap_add", "compare")
MASKED_ATOMIC_ETH = masked_atomic_eth.packer(
    "va", "r_key", "swap_add", "compare", "dma_len", "swap_add_mask", "compare_mask"
)
ATOMIC_ACK_ETH = atomic_ack_eth.packer("original")
IMM_DT = imm_dt.packer("immediate")
IETH = ieth.packer("r_key")
XRCETH = xrceth.packer("xrc_srq")

ICRC_BYTES = 4
MULTICAST_LID, PERMISSIVE_LID = 0xC000, 0xFFFF

LVER_MASK = 0xF
SL_SHIFT = 4
LNH_MASK, LNH_LOCAL, LNH_GLOBAL = 3, 2, 3
"""LRH: the next header; BTH, or GRH and BTH."""
PKT_LEN_MASK = 0x7FF
"""LRH: length in words of four bytes, from LRH to invariant CRC."""

GRH_VERSION = 6
GRH_NEXT_IBA = 0x1B

SOLICITED, MIGRATED = 1 << 7, 1 << 6
PAD_SHIFT, PAD_MASK = 4, 3
TVER_MASK = 0xF
"""BTH: solicited event, migration state, bytes of padding, transport version."""
FECN, BECN = 1 << 31, 1 << 30
"""BTH: congestion bits, in front of the destination queue pair (IBTA 9.2.2)."""
QPN_MASK = PSN_MASK = MSN_MASK = (1 << 24) - 1
PSN_HALF = 1 << 23
"""Half of the PSN space: a PSN at least this far ahead of another one is behind it."""
ACK_REQUEST = 1 << 31
"""BTH: the top bit of the PSN's word."""

SYNDROME_SHIFT = 24
ACK_UNLIMITED = 0x1F
"""AETH: acknowledged, and end-to-end credits are not in use (9.7.5.1.2)."""
SYNDROME_KIND, SYNDROME_VALUE = 0xE0, 0x1F
KIND_ACK, KIND_RNR, KIND_NAK = 0x00, 0x20, 0x60
"""AETH: the three kinds of answers (table 44)."""


class Service(IntEnum):
    """Transport services by the three top bits of an opcode that is not a manufacturer's."""

    RC = 0
    UC = 1
    UD = 3
    CNP = 4
    """Congestion notifications of RoCE, between queue pairs of connected services; not a
    service.
    """
    XRC = 5


class PacketKind(IntEnum):
    """Kinds of operations that a packet belongs to."""

    SEND = 0
    WRITE = 1
    READ = 2
    COMPARE_SWAP = 3
    FETCH_ADD = 4
    READ_RESPONSE = 5
    ACKNOWLEDGE = 6
    ATOMIC_ACKNOWLEDGE = 7
    CNP = 8
    MASKED_COMPARE_SWAP = 9
    MASKED_FETCH_ADD = 10

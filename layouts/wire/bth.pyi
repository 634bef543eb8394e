# Written by scripts/gen-view-types from bth.py; a test fails when it is stale.

from enum import IntEnum
from struct import Struct
from typing import Final

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

LRH: Struct
GRH: Struct
BTH: Struct
DETH: Struct
RETH: Struct
AETH: Struct
ATOMIC_ETH: Struct
MASKED_ATOMIC_ETH: Struct
ATOMIC_ACK_ETH: Struct
IMM_DT: Struct
IETH: Struct
XRCETH: Struct
ICRC_BYTES: Final = 4
MULTICAST_LID: Final = 49152
PERMISSIVE_LID: Final = 65535
LVER_MASK: Final = 15
SL_SHIFT: Final = 4
LNH_MASK: Final = 3
LNH_LOCAL: Final = 2
LNH_GLOBAL: Final = 3
PKT_LEN_MASK: Final = 2047
GRH_VERSION: Final = 6
GRH_NEXT_IBA: Final = 27
SOLICITED: Final = 128
MIGRATED: Final = 64
PAD_SHIFT: Final = 4
PAD_MASK: Final = 3
TVER_MASK: Final = 15
FECN: Final = 2147483648
BECN: Final = 1073741824
QPN_MASK: Final = 16777215
PSN_MASK: Final = 16777215
MSN_MASK: Final = 16777215
PSN_HALF: Final = 8388608
ACK_REQUEST: Final = 2147483648
SYNDROME_SHIFT: Final = 24
ACK_UNLIMITED: Final = 31
SYNDROME_KIND: Final = 224
SYNDROME_VALUE: Final = 31
KIND_ACK: Final = 0
KIND_RNR: Final = 32
KIND_NAK: Final = 96

class Lrh(View):
    vl_lver: int
    sl_lnh: int
    dlid: int
    pkt_len: int
    slid: int

lrh: Prm[Lrh]

class Grh(View):
    version_tclass_flow: int
    paylen: int
    next_hdr: int
    hop_limit: int
    sgid: Octets
    dgid: Octets

grh: Prm[Grh]

class Bth(View):
    opcode: int
    se_m_pad_tver: int
    p_key: int
    dest_qp: int
    a_psn: int

bth: Prm[Bth]

class Deth(View):
    q_key: int
    src_qp: int

deth: Prm[Deth]

class Reth(View):
    va: int
    r_key: int
    dma_len: int

reth: Prm[Reth]

class Aeth(View):
    syndrome_msn: int

aeth: Prm[Aeth]

class AtomicEth(View):
    va: int
    r_key: int
    swap_add: int
    compare: int

atomic_eth: Prm[AtomicEth]

class MaskedAtomicEth(View):
    va: int
    r_key: int
    swap_add: int
    compare: int
    dma_len: int
    swap_add_mask: int
    compare_mask: int

masked_atomic_eth: Prm[MaskedAtomicEth]

class AtomicAckEth(View):
    original: int

atomic_ack_eth: Prm[AtomicAckEth]

class ImmDt(View):
    immediate: int

imm_dt: Prm[ImmDt]

class Ieth(View):
    r_key: int

ieth: Prm[Ieth]

class Xrceth(View):
    xrc_srq: int

xrceth: Prm[Xrceth]

class Cnp(View): ...

cnp: Prm[Cnp]

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

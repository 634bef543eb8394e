"""err_cqe.vendor_err_synd: what the adapter adds to an error completion's syndrome.

The vendor does not publish these values. Those marked as seen are in public logs and measurements
of ConnectX-4 to -7, where their cause is known as well: dmesg of mlx5_core and mlx5_ib, UCX's "synd
0x4 vend 0x52", NCCL's "vendor err 129". The others are inferred from their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from layouts.enums import CqeOpcode, CqeSyndrome


class Cause(Enum):
    """What distinguishes errors that have the same syndrome."""

    ANY = auto()
    KEY = auto()
    """Data to send: there is no such key, or it is not for this queue."""
    BOUNDS = auto()
    """Data to send: the range leaves the key's."""
    MEMORY = auto()
    """Data to send: the memory behind a good key cannot be read."""
    SCATTER = auto()
    """Data that have come cannot be written, whatever is wrong with the key."""
    COMMAND = auto()
    """Flushed as a command has moved the queue to ERR."""
    FAILURE = auto()
    """Flushed as the queue has failed before."""


class VendorSyndrome(NamedTuple):
    """A value, and whether a public log has it for this error and cause."""

    value: int
    is_seen: bool


def _seen(value: int) -> VendorSyndrome:
    return VendorSyndrome(value, True)


def _inferred(value: int) -> VendorSyndrome:
    return VendorSyndrome(value, False)


_REQ: Final = CqeOpcode.REQ_ERR
_RESP: Final = CqeOpcode.RESP_ERR
_ANY: Final = Cause.ANY

VENDOR_SYNDROMES: Final[Mapping[tuple[CqeOpcode, CqeSyndrome, Cause], VendorSyndrome]] = {
    (_REQ, CqeSyndrome.LOCAL_LENGTH_ERR, _ANY): _seen(0x68),
    (_REQ, CqeSyndrome.LOCAL_QP_OP_ERR, _ANY): _seen(0x68),
    (_REQ, CqeSyndrome.LOCAL_PROT_ERR, _ANY): _seen(0x51),
    (_REQ, CqeSyndrome.LOCAL_PROT_ERR, Cause.MEMORY): _seen(0x51),
    (_REQ, CqeSyndrome.LOCAL_PROT_ERR, Cause.KEY): _seen(0x52),
    (_REQ, CqeSyndrome.LOCAL_PROT_ERR, Cause.BOUNDS): _seen(0x53),
    (_REQ, CqeSyndrome.LOCAL_PROT_ERR, Cause.SCATTER): _seen(0x33),
    (_REQ, CqeSyndrome.WR_FLUSH_ERR, Cause.COMMAND): _seen(0xF5),
    (_REQ, CqeSyndrome.WR_FLUSH_ERR, Cause.FAILURE): _seen(0xF9),
    (_REQ, CqeSyndrome.MW_BIND_ERR, _ANY): _seen(0x25),
    (_REQ, CqeSyndrome.BAD_RESP_ERR, _ANY): _inferred(0x83),
    (_REQ, CqeSyndrome.LOCAL_ACCESS_ERR, _ANY): _inferred(0x33),
    (_REQ, CqeSyndrome.REMOTE_INVAL_REQ_ERR, _ANY): _seen(0x8A),
    (_REQ, CqeSyndrome.REMOTE_ACCESS_ERR, _ANY): _seen(0x88),
    (_REQ, CqeSyndrome.REMOTE_OP_ERR, _ANY): _seen(0x89),
    (_REQ, CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, _ANY): _seen(0x81),
    (_REQ, CqeSyndrome.RNR_RETRY_EXC_ERR, _ANY): _seen(0x87),
    (_REQ, CqeSyndrome.REMOTE_ABORTED_ERR, _ANY): _inferred(0x93),
    (_RESP, CqeSyndrome.LOCAL_LENGTH_ERR, _ANY): _inferred(0xD5),
    (_RESP, CqeSyndrome.LOCAL_QP_OP_ERR, _ANY): _seen(0xD6),
    (_RESP, CqeSyndrome.LOCAL_PROT_ERR, _ANY): _seen(0x32),
    (_RESP, CqeSyndrome.WR_FLUSH_ERR, Cause.COMMAND): _inferred(0xF5),
    (_RESP, CqeSyndrome.WR_FLUSH_ERR, Cause.FAILURE): _seen(0xF9),
    (_RESP, CqeSyndrome.LOCAL_ACCESS_ERR, _ANY): _inferred(0x32),
    (_RESP, CqeSyndrome.REMOTE_ABORTED_ERR, _ANY): _seen(0x93),
}
"""By opcode, syndrome and cause of the error completion."""


def vendor_syndrome(opcode: CqeOpcode, syndrome: CqeSyndrome, cause: Cause = Cause.ANY) -> int:
    """The value for an error; that of any cause where the cause has none of its own.

    0 for what the device does not report by itself, but a fault plan may.
    """
    vendor = VENDOR_SYNDROMES.get((opcode, syndrome, cause))
    vendor = vendor or VENDOR_SYNDROMES.get((opcode, syndrome, Cause.ANY))
    return 0 if vendor is None else vendor.value

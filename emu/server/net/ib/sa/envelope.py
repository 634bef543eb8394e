"""Envelope of requests and responses: keys, sizes, headers (IBTA volume 1, 13.4, 15.2)."""

from __future__ import annotations

from emu.device.port.datagram import GSI_QKEY, Origin
from emu.device.port.ib.port import DEFAULT_PKEY
from emu.device.port.partitions import is_same_partition
from layouts.wire.mads import MAD_BYTES, RESPONSE, MadStatus, Method
from layouts.wire.sa import SaStatus, sa_mad


def envelope_fault(data: bytes, origin: Origin) -> str:
    """Return why a datagram is dropped before its MAD is parsed; empty if valid.

    Checked are the size of 256 bytes, the GSI Q_Key, and the default partition.
    """
    if len(data) != MAD_BYTES:
        return f"{len(data)} bytes, a MAD has {MAD_BYTES}"
    if origin.qkey != GSI_QKEY:
        return f"Q_Key {origin.qkey:#x}"
    if not is_same_partition(origin.pkey, DEFAULT_PKEY):
        return f"P_Key {origin.pkey:#x}"
    return ""


def answer_head(mad: sa_mad, status: SaStatus | MadStatus = MadStatus.SUCCESS) -> sa_mad:
    """Return a response with ``status`` and without records, under the request's header.

    The response to SubnAdmSet is GetResp (15.2.2).
    """
    answer = sa_mad.new(mad_hdr=mad.mad_hdr, comp_mask=mad.comp_mask)
    method = mad.mad_hdr.method
    answer.mad_hdr.method = RESPONSE | (Method.GET if method == Method.SET else method)
    answer.mad_hdr.status = status
    return answer

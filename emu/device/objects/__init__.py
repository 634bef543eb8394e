"""The device's objects: the state that each create command leaves behind.

An object keeps its own copy of the context it was created from, so that a query can return it, and
next to it the few values that the engine needs on every access.
"""

from emu.device.objects.cq import Cq, Moderation
from emu.device.objects.dct import Dct
from emu.device.objects.domains import (
    FlowCounter,
    Pd,
    Psv,
    QCounter,
    ReservedQpn,
    TransportDomain,
    Uar,
    Xrcd,
)
from emu.device.objects.eq import Eq
from emu.device.objects.flow import FlowDomain, FlowEntry, FlowGroup, FlowTable
from emu.device.objects.geometry import RqGeometry
from emu.device.objects.memic import Memic, MemicArea
from emu.device.objects.mkey import ANY_QPN, OCTWORD, KeySignature, Mkey, room_bytes
from emu.device.objects.qp import GlobalRoute, Marks, Qp, QpParts
from emu.device.objects.queue import Queue
from emu.device.objects.rq import Rq
from emu.device.objects.sq import Sq
from emu.device.objects.srq import Srq, SrqForm
from emu.device.objects.tir import Rqt, Tir, Tis
from emu.device.objects.translations import CHUNK, DENSE_BYTES, MTT_READ, MTT_WRITE, PageEntries
from emu.device.objects.users import Uctx, Umem

__all__ = [
    "ANY_QPN",
    "CHUNK",
    "DENSE_BYTES",
    "MTT_READ",
    "MTT_WRITE",
    "OCTWORD",
    "Cq",
    "Dct",
    "Eq",
    "FlowCounter",
    "FlowDomain",
    "FlowEntry",
    "FlowGroup",
    "FlowTable",
    "GlobalRoute",
    "KeySignature",
    "Marks",
    "Memic",
    "MemicArea",
    "Mkey",
    "Moderation",
    "PageEntries",
    "Pd",
    "Psv",
    "QCounter",
    "Qp",
    "QpParts",
    "Queue",
    "ReservedQpn",
    "Rq",
    "RqGeometry",
    "Rqt",
    "Sq",
    "Srq",
    "SrqForm",
    "Tir",
    "Tis",
    "TransportDomain",
    "Uar",
    "Uctx",
    "Umem",
    "Xrcd",
    "room_bytes",
]

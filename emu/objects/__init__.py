"""The device's objects: the state that each create command leaves behind.

An object keeps its own copy of the context it was created from, so that a query can return it, and
next to it the few values that the engine needs on every access.
"""

from emu.objects.cq import Cq, Moderation
from emu.objects.dct import Dct
from emu.objects.domains import (
    FlowCounter,
    Pd,
    Psv,
    QCounter,
    ReservedQpn,
    TransportDomain,
    Uar,
    Xrcd,
)
from emu.objects.eq import Eq
from emu.objects.flow import FlowDomain, FlowEntry, FlowGroup, FlowTable
from emu.objects.geometry import RqGeometry
from emu.objects.memic import Memic, MemicArea
from emu.objects.mkey import ANY_QPN, OCTWORD, KeySignature, Mkey, room_bytes
from emu.objects.qp import GlobalRoute, Marks, Qp, QpParts
from emu.objects.queue import Queue
from emu.objects.rq import Rq
from emu.objects.sq import Sq
from emu.objects.srq import Srq, SrqForm
from emu.objects.tir import Rqt, Tir, Tis
from emu.objects.translations import CHUNK, DENSE_BYTES, MTT_READ, MTT_WRITE, PageEntries
from emu.objects.users import Uctx, Umem

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

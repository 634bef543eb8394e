"""The tables of one function's objects, each with the limit that the driver has been told.

Every handle, index or number that a guest names is looked up in one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.objects import (
    Cq,
    Dct,
    Eq,
    FlowCounter,
    FlowDomain,
    FlowEntry,
    FlowGroup,
    FlowTable,
    Memic,
    MemicArea,
    Mkey,
    Pd,
    Psv,
    QCounter,
    Qp,
    ReservedQpn,
    Rq,
    Rqt,
    Sq,
    Srq,
    Tir,
    Tis,
    TransportDomain,
    Uar,
    Uctx,
    Umem,
    Xrcd,
)
from emu.device.objects.ledger import Ledger
from emu.device.objects.modify_header import ModifyHeader
from emu.device.objects.table import Caller, Numbers, Object, Remains, Table
from emu.device.state.caps import Caps
from layouts.eth_enums import FlowTableType

if TYPE_CHECKING:
    from emu.device.models import Model

FIRST_UAR = 8
"""Pages 0 to 2 are the initialization segment, 2 and 3 the MSI-X table and its pending bits."""

FIRST_MKEY_INDEX = 0x100
"""Lower indices are the device's own keys (``emu.device.engine.mr.special_keys``).

Index 1 must stay unused, because key 0x100 is the end mark of a scatter list.
"""

MULTICAST = "multicast"
"""The ledger's account of queue pairs in multicast groups."""

FIRST_QPN = 0x40
"""Numbers 0 and 1 mean the SMI and the GSI on the wire."""

LEAST_LOG_MAX_QP = 7
"""There are so many queue pairs even if the driver asks for fewer (log_max_qp of SET_HCA_CAP).

iPXE's golan.c asks for 2^0 and makes a few.
"""


class ObjectTables:
    """What a driver's commands have made, and what it takes of the host's memory."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.caps = Caps(model.capabilities)
        self.ledger = Ledger(model.host_bytes)
        """Host memory in use on behalf of the guest."""
        self.caller = Caller()
        self.make_tables()

    def make_tables(self) -> None:
        """Create empty tables: the limits are what the capabilities say now."""
        caps, on = self.caps.general, (self.ledger, self.caller)
        self.pds = Table(Pd, 1, 1 << caps.log_max_pd, *on)
        self.xrcds = Table(Xrcd, 1, 1 << caps.log_max_xrcd, *on)
        self.tds = Table(TransportDomain, 1, 1 << caps.log_max_transport_domain, *on)
        self.memics = Table(Memic, 1, 1 << 16, *on)
        self.memic = MemicArea(self.model.bar0_size) if caps.device_memory else None
        """Memory at the end of BAR 0, on adapters that have it."""
        bar_end = self.memic.first if self.memic is not None else self.model.bar0_size
        self.uars = Table(Uar, FIRST_UAR, bar_end >> 12, *on)
        self.eqs = Table(Eq, 1, caps.max_num_eqs + 1, *on)
        self.cqs = Table(Cq, 1, 1 << caps.log_max_cq, *on)
        self.mkeys = Table(Mkey, FIRST_MKEY_INDEX, 1 << caps.log_max_mkey, *on)
        qpns = 1 << max(caps.log_max_qp, LEAST_LOG_MAX_QP)
        self.queues = Numbers(FIRST_QPN, qpns)
        """Queue pairs share their numbers with everything that a send doorbell can name, and with
        receive queues: a dump of a queue has nothing else to tell them apart."""
        self.qps = Table(Qp, FIRST_QPN, qpns, *on, numbers=self.queues)
        self.dcts = Table(Dct, FIRST_QPN, qpns, *on, numbers=self.queues)
        self.sqs = Table(Sq, FIRST_QPN, 1 << caps.log_max_sq, *on, numbers=self.queues)
        self.reserved_qpns = Table(ReservedQpn, FIRST_QPN, qpns, *on, numbers=self.queues)
        last_rq = FIRST_QPN - 1 + (1 << caps.log_max_rq)
        self.rqs = Table(Rq, FIRST_QPN, last_rq, *on, numbers=self.queues)
        self.srqs = Table(Srq, 1, 1 << caps.log_max_srq, *on)
        self.counters = Table(QCounter, 1, caps.max_qp_cnt + 1, *on)
        flow_counters = caps.max_flow_counter_31_16 << 16 | caps.max_flow_counter_15_0
        self.flow_counters = Table(FlowCounter, 1, flow_counters + 1, *on)
        self.tises = Table(Tis, 1, 1 << caps.log_max_tis, *on)
        self.rqts = Table(Rqt, 1, 1 << caps.log_max_rqt, *on)
        self.tirs = Table(Tir, 1, 1 << caps.log_max_tir, *on)
        self._make_flow_tables()
        self.psvs = Table(Psv, 1, 1 << caps.log_max_mkey, *on)
        self.uctxs = Table(Uctx, 1, 1 << caps.log_max_uctx, *on)
        self.umems = Table(Umem, 1, 1 << caps.log_max_umem, *on)
        self.special_qps: dict[int, Qp] = {}
        """The queue pairs that receive as QP0 and QP1."""
        self.mcgs: dict[bytes, list[Qp]] = {}
        """Datagram queue pairs by the multicast GID that they are attached to."""

    def _make_flow_tables(self) -> None:
        """Nothing steers packets yet. Received packets can be steered, and RoCE's both ways."""
        caps, on = self.caps.flow_table, (self.ledger, self.caller)
        props = caps.flow_table_properties_nic_receive
        self.flow_tables = Table(FlowTable, 1, 1 << props.log_max_ft_num, *on)
        self.flow_groups = Table(FlowGroup, 1, 1 << props.log_max_flow, *on)
        self.flow_entries = Table(FlowEntry, 1, 1 << props.log_max_flow, *on)
        contexts = 1 << props.log_max_modify_header_context
        self.modify_headers = Table(ModifyHeader, 1, contexts, *on)
        self.rdma_rx, self.rdma_tx = FlowDomain(), FlowDomain()
        """The flow tables of RoCE packets, which never have a root without ``ft_support``."""
        found = (
            (FlowTableType.NIC_RX, props, FlowDomain()),
            (FlowTableType.RDMA_RX, caps.flow_table_properties_nic_receive_rdma, self.rdma_rx),
            (FlowTableType.RDMA_TX, caps.flow_table_properties_nic_transmit_rdma, self.rdma_tx),
        )
        self.flow_domains: dict[int, FlowDomain] = {
            kind: domain for kind, properties, domain in found if properties.ft_support
        }
        """By flow_table_type; the types with ``ft_support``."""

    @property
    def tables(self) -> tuple[Table[Object], ...]:
        """Every table, for summaries and leak checks."""
        return (
            self.pds, self.xrcds, self.tds, self.memics, self.uars, self.eqs, self.cqs,
            self.mkeys, self.qps, self.dcts, self.sqs, self.rqs, self.srqs, self.counters,
            self.flow_counters, self.psvs, self.uctxs, self.umems, self.tises, self.rqts,
            self.tirs, self.flow_tables, self.flow_groups, self.flow_entries, self.modify_headers,
            self.reserved_qpns,
        )  # type: ignore[return-value]  # fmt: skip

    def clear_tables(self, remains: Remains) -> None:
        """Forget all objects at once; ``remains`` gets them, to be freed a share at a time."""
        for flow_table in self.flow_tables:
            flow_table.groups.clear()
        for group in self.flow_groups:
            group.forget()
        for table in self.tables:
            remains.add(table.clear())
            self.ledger.close(table.kind)
        self.ledger.close(MULTICAST)
        self.caller.owned.clear()
        self.make_tables()

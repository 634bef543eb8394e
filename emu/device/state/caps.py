"""The device's capability pages: the maximum that it supports, and the driver's current values.

The maximum (MAX) comes from the model; for a sub-function the adapter's manager sets it. The
current values (CUR) start equal to it. SET_HCA_CAP may lower a field but never raise it above MAX.
Every limit that the device enforces is read from CUR, so enforced and reported limits agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from emu.device.errors import BadParamError
from emu.device.objects.uar_pages import UarPages
from layouts.enums.caps import CapMode, CapType
from layouts.enums.flow_table import FlowTableType
from layouts.enums.qp import QpType
from layouts.function import caps as layout
from layouts.function import crypto as crypto_layout
from layouts.function import esw_caps, eth_caps
from layouts.function import lag as lag_layout
from layouts.memory import memic
from layouts.prm import Prm

PAGE_BYTES: Final = 4096


class Group(NamedTuple):
    """A group of capabilities: its structure, and what enables it."""

    prm: type[Prm]
    gates: tuple[str, ...] = ()
    """General capabilities, of which any one suffices (core/fw.c: mlx5_query_hca_caps)."""
    reads_empty: bool = True
    """Whether the group is empty, not unknown, where its gates are 0: an InfiniBand port lacks
    offloads and RoCE, ConnectX-4 Lx device memory, a virtual function the dump of objects.
    """


GROUPS: Final[Mapping[CapType, Group]] = {
    CapType.GENERAL: Group(layout.cmd_hca_cap),
    CapType.ODP: Group(layout.odp_cap, ("pg",), reads_empty=False),
    CapType.ATOMIC: Group(layout.atomic_caps, ("atomic",), reads_empty=False),
    CapType.GENERAL_2: Group(layout.cmd_hca_cap_2, ("hca_cap_2",), reads_empty=False),
    CapType.ETHERNET_OFFLOADS: Group(
        eth_caps.per_protocol_networking_offload_caps, ("eth_net_offloads",)
    ),
    CapType.IPOIB_ENHANCED_OFFLOADS: Group(
        eth_caps.per_protocol_networking_offload_caps, ("ipoib_enhanced_offloads",)
    ),
    CapType.FLOW_TABLE: Group(
        eth_caps.flow_table_nic_cap, ("nic_flow_table", "ipoib_enhanced_offloads")
    ),
    CapType.ROCE: Group(eth_caps.roce_cap, ("roce",)),
    CapType.DEV_MEM: Group(memic.device_mem_cap, ("device_memory",)),
    CapType.DEBUG: Group(eth_caps.debug_cap, ("debug",)),
    CapType.ESWITCH: Group(esw_caps.e_switch_cap, ("eswitch_manager",)),
    CapType.ESWITCH_FLOW_TABLE: Group(esw_caps.flow_table_eswitch_cap, ("eswitch_manager",)),
    CapType.DEV_SHAMPO: Group(eth_caps.shampo_cap, ("shampo",)),
    CapType.QOS: Group(eth_caps.qos_cap, ("qos",)),
    CapType.CRYPTO: Group(crypto_layout.crypto_cap, ("crypto",)),
    CapType.PORT_SELECTION: Group(lag_layout.port_selection_cap, ("port_selection_cap",)),
}
_OFF_AT_RESET: Final[Mapping[CapType, Mapping[str, Any]]] = {
    CapType.GENERAL: {
        "log_uar_page_sz": 0,
        "num_of_uars_per_page": 1,
        "cmdif_checksum": 0,
        "vhca_state": 0,
        "event_on_vhca_state_allocated": 0,
        "event_on_vhca_state_active": 0,
        "event_on_vhca_state_in_use": 0,
        "event_on_vhca_state_teardown_request": 0,
    },
    CapType.ODP: {
        "mem_page_fault": 0,
        "transport_page_fault_scheme_cap": {
            "rc_odp_caps": {"srq_receive": 0},
            "ud_odp_caps": {"srq_receive": 0},
            "xrc_odp_caps": bytes(4),
            "dc_odp_caps": bytes(4),
        },
    },
    CapType.PORT_SELECTION: {"port_select_flow_table_bypass": 0},
}
"""Fields whose current value starts at 0 although the maximum is higher: a driver must opt in.

An older driver must not get behaviour that it does not know (core/main.c: handle_hca_cap_odp).
"""

_WRITABLE: Final = {CapType.ATOMIC: ("atomic_req_8B_endianness_mode",)}
"""Groups for which the driver sends only the fields that it sets, with all others 0.

For the other groups the driver sends back a complete copy (core/main.c: handle_hca_cap_*).
"""

_NIC_PROPERTIES: Final[dict[FlowTableType, str]] = {
    FlowTableType.NIC_RX: "flow_table_properties_nic_receive",
    FlowTableType.NIC_TX: "flow_table_properties_nic_transmit",
    FlowTableType.RDMA_RX: "flow_table_properties_nic_receive_rdma",
    FlowTableType.RDMA_TX: "flow_table_properties_nic_transmit_rdma",
    FlowTableType.SNIFFER_RX: "flow_table_properties_nic_receive_sniffer",
    FlowTableType.SNIFFER_TX: "flow_table_properties_nic_transmit_sniffer",
}
"""Fields of flow_table_nic_cap by the type of the tables."""

_MAX_PAGES: Final = 256
_PAGES: Final[dict[tuple[CapType, int], tuple[Mapping[str, Any], bytes]]] = {}
"""Cache of filled pages, by group and identity of the values, which the cache keeps alive."""


def _page(group: CapType, values: Mapping[str, Any] | None) -> bytes:
    """Return a group's page of PAGE_BYTES with ``values`` in its fields; all zero without values.

    Pages are cached by the identity of ``values``, which the caller must not change afterwards. The
    cache is emptied at _MAX_PAGES pages.
    """
    if not values:
        return bytes(PAGE_BYTES)
    key = group, id(values)
    if key not in _PAGES:
        page = bytearray(PAGE_BYTES)
        GROUPS[group].prm.view(page).assign(values)
        if len(_PAGES) >= _MAX_PAGES:
            _PAGES.clear()
        _PAGES[key] = values, bytes(page)
    return _PAGES[key][1]


class Caps:
    """Capability pages of one function.

    ``values`` gives each group's fields by their PRM names; a nested structure is a mapping. The
    caller must not change them afterwards. ``vhca_id`` identifies the function in its adapter.
    """

    def __init__(self, values: Mapping[CapType, Mapping[str, Any]], vhca_id: int = 0) -> None:
        pages = {group: _page(group, values.get(group)) for group in GROUPS}
        self._pages = {
            (group, mode): bytearray(pages[group]) for group in GROUPS for mode in CapMode
        }
        self._offered: dict[CapType, bytes] = {}
        """The model's maximum, of groups that the manager has set."""
        current = {group: self._pages[group, CapMode.CUR] for group in GROUPS}
        self.general = layout.cmd_hca_cap.view(current[CapType.GENERAL])
        self.atomic = layout.atomic_caps.view(current[CapType.ATOMIC])
        self.odp = layout.odp_cap.view(current[CapType.ODP])
        self.ethernet = eth_caps.per_protocol_networking_offload_caps.view(
            current[CapType.ETHERNET_OFFLOADS]
        )
        self.flow_table = eth_caps.flow_table_nic_cap.view(current[CapType.FLOW_TABLE])
        self.roce = eth_caps.roce_cap.view(current[CapType.ROCE])
        self.debug = eth_caps.debug_cap.view(current[CapType.DEBUG])
        self.qos = eth_caps.qos_cap.view(current[CapType.QOS])
        self.port_selection = lag_layout.port_selection_cap.view(current[CapType.PORT_SELECTION])
        self.crypto = crypto_layout.crypto_cap.view(current[CapType.CRYPTO])
        self.general_2 = layout.cmd_hca_cap_2.view(current[CapType.GENERAL_2])
        self.device_memory = memic.device_mem_cap.view(current[CapType.DEV_MEM])
        self.eswitch = esw_caps.e_switch_cap.view(current[CapType.ESWITCH])
        self.eswitch_tables = esw_caps.flow_table_eswitch_cap.view(
            current[CapType.ESWITCH_FLOW_TABLE]
        )
        for mode in CapMode:
            self._view(CapType.GENERAL, mode).vhca_id = vhca_id
        for group in _OFF_AT_RESET:
            self._opt_out(group)
        self.has_cmd_signatures = False
        """Whether the driver has enabled the signatures of commands (cmdif_checksum)."""
        self.is_memory_scheme = False
        """Whether page faults are reported in the memory scheme (odp_cap.mem_page_fault)."""
        self.odp_operations: dict[tuple[QpType, str], bool] = {}
        """Cache of ``may_wait`` (``emu.device.engine.mr.page_faults``): operations of the services
        that may wait for pages in this scheme.
        """
        self._follow()

    def _follow(self) -> None:
        """Decode what commands and accesses read often, after a change of current capabilities."""
        self.has_cmd_signatures = bool(self.general.cmdif_checksum)
        self.is_memory_scheme = bool(self.odp.mem_page_fault)
        self.odp_operations.clear()

    def _opt_out(self, group: CapType) -> None:
        """Clear the group's CUR fields of _OFF_AT_RESET: a driver must opt in to them."""
        self._view(group, CapMode.CUR).assign(_OFF_AT_RESET[group])

    def flow_properties(self, table_type: FlowTableType) -> Any:
        """Return the CUR capabilities of flow tables of a type, a flow_table_prop_layout view.

        All enabled types have one; the view has only zeros where the function lacks the type.
        """
        if table_type is FlowTableType.FDB:
            return self.eswitch_tables.flow_table_properties_nic_esw_fdb
        if table_type is FlowTableType.ESW_INGRESS_ACL:
            return self.eswitch_tables.flow_table_properties_esw_acl_ingress
        if table_type is FlowTableType.ESW_EGRESS_ACL:
            return self.eswitch_tables.flow_table_properties_esw_acl_egress
        if table_type is FlowTableType.PORT_SEL:
            return self.port_selection.flow_table_properties_port_selection
        return getattr(self.flow_table, _NIC_PROPERTIES[table_type])

    def _view(self, group: CapType, mode: CapMode) -> Any:
        return GROUPS[group].prm.view(self._pages[group, mode])

    def page(self, group: int, mode: CapMode) -> bytes:
        """Return a copy of the page for QUERY_HCA_CAP.

        The page is zero for a group that is not implemented at all, and for some that the model
        lacks. rdma-core's tests read pages to decide whether to skip (test_mlx5_dm_ops). Raises
        BAD_PARAM_ERR for a number that is not a group, and for any other group that was turned off.
        """
        if group in CapType._value2member_map_:
            known = GROUPS.get(CapType(group))
            if known is None or (known.reads_empty and not self.has(group)):
                return bytes(PAGE_BYTES)
        return bytes(self._pages[self._known(group), mode])

    def set(self, group: int, page: bytes) -> None:
        """Replace the group's CUR values by the driver's (SET_HCA_CAP); MAX does not change.

        Of the ATOMIC group only atomic_req_8B_endianness_mode is taken. Raises BAD_PARAM_ERR for a
        group that the function lacks and for a field above MAX, before anything changes. The values
        take effect on limits of tables at INIT_HCA.
        """
        known = self._known(group)
        prm = GROUPS[known].prm
        chosen = prm.view(page)
        _check_below(chosen, self._view(known, CapMode.MAX))
        if known in _WRITABLE:
            current = self._view(known, CapMode.CUR)
            for name in _WRITABLE[known]:
                setattr(current, name, getattr(chosen, name))
        else:
            self._pages[known, CapMode.CUR][: prm.size] = page[: prm.size]
        if known is CapType.GENERAL:
            self.general.num_of_uars_per_page = UarPages(self.general).per_page
        self._follow()

    def grant(self, group: int, page: bytes) -> None:
        """Set MAX and CUR of another function to its manager's values (SET_HCA_CAP).

        The manager reads MAX, changes a field and sends the page back, repeatedly
        (core/eswitch_offloads.c: mlx5_devlink_port_fn_max_io_eqs_set, ..._get). Fields that a
        driver must opt in to stay 0 in CUR. Raises BAD_PARAM_ERR for a group that the function
        lacks, and for a field above the model's maximum.
        """
        known = self._known(group)
        prm, maximum = GROUPS[known].prm, self._pages[known, CapMode.MAX]
        offered = self._offered.get(known, bytes(maximum))
        _check_below(prm.view(page), prm.view(offered))
        self._offered[known] = offered
        for mode in CapMode:
            self._pages[known, mode][: prm.size] = page[: prm.size]
        if known in _OFF_AT_RESET:
            self._opt_out(known)
        self._follow()

    def lower(self, values: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        """Lower general fields, by dotted names, in MAX and CUR; return their old values.

        The result has (MAX, CUR) by name, for ``restore``. A value that is negative or not below
        the old one changes nothing and is left out, also a field that is not a number. Raises
        AttributeError for an unknown name.
        """
        before = {}
        views = [self._view(CapType.GENERAL, mode) for mode in (CapMode.MAX, CapMode.CUR)]
        for name, value in values.items():
            was = tuple(getattr(*_holder(view, name)) for view in views)
            if all(isinstance(old, int) for old in was) and 0 <= int(value) < max(was):
                before[name] = was
                for view, old in zip(views, was):
                    holder, last = _holder(view, name)
                    setattr(holder, last, min(old, int(value)))
        self._follow()
        return before

    def restore(self, before: Mapping[str, tuple[int, int]]) -> None:
        """Write back the (MAX, CUR) values that ``lower`` returned, over any later ones."""
        for name, was in before.items():
            for mode, old in zip((CapMode.MAX, CapMode.CUR), was):
                holder, last = _holder(self._view(CapType.GENERAL, mode), name)
                setattr(holder, last, old)
        self._follow()

    def has(self, group: int) -> bool:
        """Return whether the function has the group: implemented here, with its gate set in CUR.

        False for an unknown number. A group without a gate is always there; any one of several
        gates is enough.
        """
        if group not in GROUPS:
            return False
        gates = GROUPS[CapType(group)].gates
        return not gates or any(getattr(self.general, gate) for gate in gates)

    def _known(self, group: int) -> CapType:
        if not self.has(group):
            raise BadParamError("capability group not supported", f"{group:#x}")
        return CapType(group)


def _holder(view: object, path: str) -> tuple[Any, str]:
    """Return the view that contains the last component of a dotted path, and that component.

    Raises AttributeError for an unknown parent; the last component is not checked.
    """
    *parents, name = path.split(".")
    for step in parents:
        view = getattr(view, step)
    return view, name


MASKS: Final = frozenset(
    {
        "atomic_operations", "atomic_size_dc", "atomic_size_qp", "fdb_to_vport_reg_c_id",
        "flex_parser_protocols", "general_obj_types", "match_definer_format_supported",
        "memic_operations", "roce_version", "uctx_cap",
    }
)  # fmt: skip
"""Fields each bit of which is a capability of its own."""


def _check_below(chosen: Any, maximum: Any) -> None:
    """Raise BAD_PARAM_ERR if an integer field of ``chosen`` exceeds that of ``maximum``.

    A mask exceeds by any bit that ``maximum`` lacks. Nested structures are compared too, other
    kinds of fields are not.
    """
    if bytes(chosen) == bytes(maximum):
        return
    for field in type(chosen).fields:
        value, limit = getattr(chosen, field.name), getattr(maximum, field.name)
        if isinstance(value, int):
            if value & ~limit if field.name in MASKS else value > limit:
                raise BadParamError(
                    "capability set above its maximum",
                    f"{type(chosen).__name__}.{field.name}: {value} > {limit}",
                )
        elif isinstance(value, Prm):
            _check_below(value, limit)

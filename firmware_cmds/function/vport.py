"""Virtual port of the function: context, GIDs, P_Keys, state and counters (PRM "vPort")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine import lifecycle
from emu.device.errors import BadParamError, CmdError
from emu.device.port import counts
from emu.device.port.ib.port import (
    DEFAULT_PKEY,
    GID_TABLE_ENTRIES,
    PKEY_TABLE_ENTRIES,
    SETTABLE_CAPS,
)
from emu.device.port.ib.vport import HcaVport
from firmware_cmds.function.nic_vport import is_switched
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.vport import HcaVportField, VportPolicy, VportStateOpMod
from layouts.function import vport as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_GIVEN = int(HcaVportField.PORT_GUID | HcaVportField.NODE_GUID | HcaVportField.STATE_POLICY)
"""Fields that the manager sets for a virtual function."""

ALL_ENTRIES = 0xFFFF
"""Index that asks for the whole table (core/vport.c:mlx5_query_hca_vport_gid)."""


@command(Op.QUERY_HCA_VPORT_CONTEXT, of_others=True)
def query_hca_vport_context(
    hca: Hca, cmd: layout.query_hca_vport_context_in, out: layout.query_hca_vport_context_out
) -> None:
    """Return state, GUIDs, LIDs and the capability mask of the port.

    has_smi is 0 for a VF. The manager may ask about a virtual function, and reads the GUIDs that
    it has set (hw/mlx5/ib_virt.c). An Ethernet function gets BAD_OP_ERR.
    """
    port = hca.ib
    given = port.given if cmd.other_vport else HcaVport()
    out.hca_vport_context.assign(
        {
            # Only the physical function has subnet management, on a real adapter as well.
            "has_smi": not hca.model.identity.is_vf,
            "port_physical_state": port.phys_state,
            "port_state": port.state,
            "vport_state": port.state,
            "vport_state_policy": port.given.policy,
            "system_image_guid": hca.adapter.guid,
            "port_guid": given.port_guid or port.port_guid,
            "node_guid": given.node_guid or port.node_guid,
            "cap_mask1": port.cap_mask1,
            "cap_mask1_field_select": SETTABLE_CAPS,
            "lid": port.lid,
            "subnet_timeout": port.subnet_timeout,
            "sm_lid": port.sm_lid,
            "pkey_violation_counter": port.pkey_violations,
            "qkey_violation_counter": port.qkey_violations,
        }
    )


@command(Op.MODIFY_HCA_VPORT_CONTEXT, privileged=True, of_others=True)
def modify_hca_vport_context(
    hca: Hca, cmd: layout.modify_hca_vport_context_in, out: layout.modify_hca_vport_context_out
) -> None:
    """Set capability bits that belong to the software (hw/main.c:set_port_caps_atomic).

    A change is reported to the subnet. The manager sets policy and GUIDs of a virtual function; the
    function has the GUIDs from its next ENABLE_HCA on. Refuse other fields, bits and policies with
    BAD_PARAM_ERR. An Ethernet function gets BAD_OP_ERR.
    """
    context, port = cmd.hca_vport_context, hca.ib
    fields = context.field_select
    if fields & ~_GIVEN or (fields and not cmd.other_vport):
        raise BadParamError("field is not settable", f"field_select {fields:#x}")
    policy = port.given.policy
    if fields & HcaVportField.STATE_POLICY:
        if context.vport_state_policy not in tuple(VportPolicy):
            raise BadParamError("unknown policy of a vPort", f"{context.vport_state_policy}")
        policy = VportPolicy(context.vport_state_policy)
    selected = context.cap_mask1_field_select
    if selected & ~SETTABLE_CAPS:
        raise BadParamError("capability bit is not settable", f"{selected:#x}")
    if fields & HcaVportField.PORT_GUID:
        port.given.port_guid = context.port_guid
    if fields & HcaVportField.NODE_GUID:
        port.given.node_guid = context.node_guid
    if policy is not port.given.policy:
        lifecycle.set_policy(hca, policy)
    before = port.cap_mask1
    port.cap_mask1 = before & ~selected | context.cap_mask1 & selected
    if port.cap_mask1 != before:
        hca.wire.port_changed(hca)  # the subnet's administrator reports it as well


@command(Op.QUERY_HCA_VPORT_GID, privileged=True, of_others=True)
def query_hca_vport_gid(
    hca: Hca, cmd: layout.query_hca_vport_gid_in, out: layout.query_hca_vport_gid_out
) -> None:
    """Return one GID, or the whole table for index 0xFFFF.

    gids_num is the number of GIDs. Refuse an index beyond the table with BAD_PARAM_ERR, a short
    output with BAD_OUTP_LEN_ERR. An Ethernet function gets BAD_OP_ERR.
    """
    indices = _indices(cmd.gid_index, GID_TABLE_ENTRIES, len(out.gid))
    for at, index in enumerate(indices):
        out.gid[at] = hca.ib.gid(index)
    out.gids_num = len(indices)


@command(Op.QUERY_HCA_VPORT_PKEY, privileged=True, of_others=True)
def query_hca_vport_pkey(
    hca: Hca, cmd: layout.query_hca_vport_pkey_in, out: layout.query_hca_vport_pkey_out
) -> None:
    """Return one P_Key, or the whole table for index 0xFFFF.

    mlx5_ib reads the single P_Key of RoCE from an Ethernet port as well (mlx5_query_port_roce).
    Refuse an index beyond the table with BAD_PARAM_ERR, a short output with BAD_OUTP_LEN_ERR.
    """
    if hca.model.port_type is PortType.ETH:
        keys: Sequence[int] = (DEFAULT_PKEY,)
    else:
        keys = [hca.ib.pkey(index) for index in range(PKEY_TABLE_ENTRIES)]
    for at, index in enumerate(_indices(cmd.pkey_index, len(keys), len(out.pkey))):
        out.pkey[at].pkey = keys[index]


def _indices(index: int, entries: int, room: int) -> range:
    """Return the indices that a query of a table reads: one, or all for 0xFFFF.

    ``room`` is the number of entries that fit the output. Raises BAD_PARAM_ERR beyond the table,
    BAD_OUTP_LEN_ERR if too few fit.
    """
    if index == ALL_ENTRIES:
        if room < entries:
            raise CmdError(
                Status.BAD_OUTP_LEN_ERR, "output is too short for the table", f"{room} entries"
            )
        return range(entries)
    if index >= entries:
        raise BadParamError("index beyond the table", f"{index} of {entries}")
    if room < 1:
        raise CmdError(Status.BAD_OUTP_LEN_ERR, "output is too short for an entry")
    return range(index, index + 1)


@command(Op.QUERY_VPORT_STATE, of_others=True)
def query_vport_state(
    hca: Hca, cmd: layout.query_vport_state_in, out: layout.query_vport_state_out
) -> None:
    """Return UP while the port has a link and the driver has not disabled it.

    The switch's manager reads admin_state as it set it for the vPort; from others that op_mod gets
    BAD_PARAM_ERR.
    """
    out.admin_state = out.state = int(hca.vport.is_up)
    if cmd.op_mod == VportStateOpMod.ESW_VPORT:
        if not is_switched(hca, cmd):
            raise BadParamError("function has no embedded switch")
        out.admin_state = hca.nic_vport.switch_state


@command(Op.QUERY_VPORT_COUNTER, of_others=True)
def query_vport_counter(
    hca: Hca, cmd: layout.query_vport_counter_in, out: layout.query_vport_counter_out
) -> None:
    """Return packets and octets since the driver last cleared them.

    ``clear`` zeroes them. The manager may ask about another function.
    """
    for name, traffic in counts.since_cleared(hca.vport).items():
        getattr(out, name).assign({"packets": traffic.packets, "octets": traffic.octets})
    if cmd.clear:
        counts.clear(hca.vport)

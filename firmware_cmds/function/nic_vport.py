"""Virtual port of an Ethernet function: its context and its state (PRM "NIC vPort Context").

Promiscuous modes and wanted addresses are stored for the wire and for queries. Flow tables decide
which packets are received (core/en_fs.c: mlx5e_fs_set_rx_mode_work).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine import lifecycle
from emu.device.engine.events import vport_change
from emu.device.errors import BadParamError, CmdError
from emu.device.port.eth.traffic import MAC_BYTES
from emu.device.port.eth.vport import NicVport, VportChange
from firmware_cmds.options import first_set
from layouts.enums.caps import InlineModeCap
from layouts.enums.cmd import Op, Status
from layouts.enums.vport import InlineMode, NvprtListType, VportAdminState, VportStateOpMod
from layouts.function import nic_vport as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from layouts.cmd import VportIn

_GROUP_BIT = 1 << 40
_MAC_MASK = (1 << 48) - 1
_VID_MASK = 0xFFF

_NOT_SETTABLE = ("affiliation", "port_guid", "min_inline")
"""Fields whose features have capability bits, none of which is set."""
_OF_MANAGERS = ("node_guid", "change_event")
"""Fields that only the manager of an embedded switch sets (nic_vport_node_guid_modify,
nic_vport_change_event).
"""
_EVENTS = {
    "event_on_uc_address_change": VportChange.UC_ADDRESS,
    "event_on_mc_address_change": VportChange.MC_ADDRESS,
    "event_on_vlan_change": VportChange.VLAN,
    "event_on_promisc_change": VportChange.PROMISC,
    "event_on_mtu": VportChange.MTU,
}


@command(Op.QUERY_NIC_VPORT_CONTEXT, of_others=True)
def query_nic_vport_context(
    hca: Hca, cmd: layout.query_nic_vport_context_in, out: layout.query_nic_vport_context_out
) -> None:
    """Return the context and the chosen list, up to the output's space.

    allowed_list_type chooses the list; an unknown type gets BAD_PARAM_ERR. The manager may ask
    about another function. An InfiniBand function gets BAD_OP_ERR.
    """
    vport, context = hca.nic_vport, out.nic_vport_context
    entries = _list(vport, _list_type(cmd.allowed_list_type))
    is_asked = hca.caps.ethernet.wqe_inline_mode == InlineModeCap.VPORT_CONTEXT
    context.assign(
        {
            "min_wqe_inline_mode": InlineMode.L2 if is_asked else InlineMode.NONE,
            "roce_en": int(vport.roce_en),
            "disable_uc_local_lb": int(vport.disable_uc_local_lb),
            "disable_mc_local_lb": int(vport.disable_mc_local_lb),
            "mtu": vport.mtu,
            "system_image_guid": hca.adapter.guid,
            "port_guid": vport.guid,
            "node_guid": vport.node_guid or vport.guid,
            "qkey_violation_counter": vport.qkey_violations,
            "promisc_uc": int(vport.promisc_uc),
            "promisc_mc": int(vport.promisc_mc),
            "promisc_all": int(vport.promisc_all),
            "allowed_list_type": cmd.allowed_list_type,
            "allowed_list_size": len(entries),
        }
    )
    address = int.from_bytes(vport.permanent_address, "big")
    context.permanent_address.mac_addr_47_32 = address >> 32
    context.permanent_address.mac_addr_31_0 = address & 0xFFFFFFFF
    places = context.current_uc_mac_address
    for at, entry in zip(range(len(places)), entries):
        places[at] = entry


def _list_type(number: int) -> NvprtListType:
    """Return the type of a vPort list; raise BAD_PARAM_ERR for an unknown one."""
    try:
        return NvprtListType(number)
    except ValueError:
        raise BadParamError("unknown list type", f"{number}") from None


def _list(vport: NicVport, kind: NvprtListType) -> Sequence[int]:
    """Return a list's entries: MAC addresses or VLANs, as numbers."""
    if kind is NvprtListType.VLAN:
        return vport.vlan_list
    macs = vport.uc_list if kind is NvprtListType.UC else vport.mc_list
    return [int.from_bytes(mac, "big") for mac in macs]


@command(Op.MODIFY_NIC_VPORT_CONTEXT, privileged=True, of_others=True)
def modify_nic_vport_context(
    hca: Hca, cmd: layout.modify_nic_vport_context_in, out: layout.modify_nic_vport_context_out
) -> None:
    """Set the selected fields: MTU, lists of addresses, promiscuous modes, RoCE, local loopback.

    A new address is announced to wire and switch. The manager gets NIC_VPORT_CHANGE if it has armed
    the change, or arms one that has come since the last event. Refuse with BAD_PARAM_ERR fields
    that are not settable and invalid values, with LIM_ERR a list that is too long. An InfiniBand
    function gets BAD_OP_ERR.
    """
    vport, chosen, context = hca.nic_vport, cmd.field_select, cmd.nic_vport_context
    if name := first_set(chosen, _NOT_SETTABLE):
        raise BadParamError("vPort field is not settable", name)
    if (name := first_set(chosen, _OF_MANAGERS)) and not is_switched(hca, cmd):
        raise BadParamError("vPort field is not settable", name)
    if chosen.mtu and context.mtu > vport.port.max_mtu:
        raise BadParamError("MTU above the port's maximum", f"{context.mtu}")
    if chosen.roce_en and context.roce_en and not hca.caps.general.roce:
        raise BadParamError("port has no RoCE")
    address = _permanent_address(context, cmd) if chosen.permanent_address else b""
    kind, entries = _list_type(context.allowed_list_type), _entries(hca.caps, chosen, context)

    before, lists = (vport.permanent_address, vport.uc_list), vport_change.reported(vport)
    if chosen.mtu:
        vport.mtu = int(context.mtu)
    if chosen.roce_en:
        vport.roce_en = bool(context.roce_en)
    if chosen.disable_uc_local_lb:
        vport.disable_uc_local_lb = bool(context.disable_uc_local_lb)
    if chosen.disable_mc_local_lb:
        vport.disable_mc_local_lb = bool(context.disable_mc_local_lb)
    if chosen.promisc:
        vport.promisc_uc = bool(context.promisc_uc)
        vport.promisc_mc = bool(context.promisc_mc)
        vport.promisc_all = bool(context.promisc_all)
    if entries is not None:
        _put_list(vport, kind, entries)
    if address:
        vport.permanent_address = address
    if chosen.node_guid:
        vport.node_guid = int(context.node_guid)
    if (vport.permanent_address, vport.uc_list) != before:
        lifecycle.announce(hca)
    vport_change.report(vport, hca.vhca, lists)
    if chosen.change_event:
        vport.armed = _armed(context)
        vport_change.raise_armed(vport, hca.vhca)


def _armed(context: layout.nic_vport_context) -> int:
    """Return the changes that the manager has armed; none without arm_change_event."""
    armed = 0
    if context.arm_change_event:
        for name, change in _EVENTS.items():
            if getattr(context, name):
                armed |= change
    return armed


def is_switched(hca: Hca, cmd: VportIn) -> bool:
    """Return whether a command comes from the manager of the switch behind a function's vPort.

    The manager is a sender that names another vPort, or its own.
    """
    manager = hca.adapter.manager.node
    is_named = bool(cmd.other_vport or cmd.vport_number)
    return manager is not None and manager.eswitch is not None and (is_named or hca is manager)


def _permanent_address(
    context: layout.nic_vport_context, cmd: layout.modify_nic_vport_context_in
) -> bytes:
    """Return the MAC address of the command; raise BAD_PARAM_ERR unless it is unicast.

    The manager may give another vPort the zero address: that vPort's driver then chooses one.
    """
    given = context.permanent_address
    address: int = given.mac_addr_47_32 << 32 | given.mac_addr_31_0
    if (not address and not cmd.other_vport) or address & _GROUP_BIT:
        raise BadParamError("not a unicast address", f"{address:#014x}")
    return address.to_bytes(MAC_BYTES, "big")


def _entries(
    caps: Caps,
    chosen: layout.modify_nic_vport_field_select,
    context: layout.nic_vport_context,
) -> list[int] | None:
    """Return the entries that replace the list; None if the command replaces none.

    Raises LIM_ERR for more than the capability allows, BAD_INP_LEN_ERR for a short input,
    BAD_PARAM_ERR for a multicast address in the unicast list.
    """
    if not chosen.addresses_list:
        return None
    kind, size = _list_type(context.allowed_list_type), context.allowed_list_size
    general, given = caps.general, context.current_uc_mac_address
    limit = {
        NvprtListType.UC: general.log_max_current_uc_list,
        NvprtListType.MC: general.log_max_current_mc_list,
        NvprtListType.VLAN: general.log_max_vlan_list,
    }[kind]
    if size > 1 << limit:
        raise CmdError(Status.LIM_ERR, "vPort list is longer than its capability allows", f"{size}")
    if size > len(given):
        raise CmdError(
            Status.BAD_INP_LEN_ERR,
            "input is too short for the vPort list",
            f"{len(given)} of {size}",
        )
    mask = _VID_MASK if kind is NvprtListType.VLAN else _MAC_MASK
    entries = [given[at] & mask for at in range(size)]
    if kind is NvprtListType.UC and any(entry & _GROUP_BIT for entry in entries):
        raise BadParamError("multicast address in the list of unicast addresses")
    return entries


def _put_list(vport: NicVport, kind: NvprtListType, entries: list[int]) -> None:
    """Replace one of the vPort's lists: VLANs, unicast or multicast MAC addresses."""
    if kind is NvprtListType.VLAN:
        vport.vlan_list = tuple(entries)
        return
    macs = tuple(entry.to_bytes(MAC_BYTES, "big") for entry in entries)
    if kind is NvprtListType.UC:
        vport.uc_list, vport.own = macs, frozenset(macs)
    else:
        vport.mc_list = macs


@command(Op.MODIFY_VPORT_STATE, privileged=True, of_others=True)
def modify_vport_state(
    hca: Hca, cmd: layout.modify_vport_state_in, out: layout.modify_vport_state_out
) -> None:
    """Enable or disable a virtual port, for its function or for its switch.

    AUTO means UP to the function itself. To the switch it means that the vPort follows the physical
    port. A change of the link raises PORT_CHANGE. Refuse with BAD_PARAM_ERR an unknown state, and
    the op_mod of the switch from another sender than its manager. An InfiniBand function gets
    BAD_OP_ERR.
    """
    is_esw = cmd.op_mod == VportStateOpMod.ESW_VPORT and is_switched(hca, cmd)
    if cmd.op_mod != VportStateOpMod.VNIC_VPORT and not is_esw:
        raise BadParamError("function has no embedded switch", f"op_mod {cmd.op_mod}")
    if cmd.admin_state not in tuple(VportAdminState):
        raise BadParamError("unknown vPort state", f"{cmd.admin_state}")
    if is_esw:
        lifecycle.set_switch_state(hca.nic_vport, hca.adapter, VportAdminState(cmd.admin_state))
    else:
        is_up = cmd.admin_state != VportAdminState.DOWN
        lifecycle.set_vport_admin(hca.nic_vport, hca.adapter, up=is_up)

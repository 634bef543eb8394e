"""GID table of an Ethernet port (PRM "RoCE Address"; hw/main.c: set_roce_addr)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine import lifecycle
from emu.device.errors import BadParamError, CmdError
from emu.device.port.eth.roce.framing import is_ipv4
from emu.device.port.eth.roce.gids import MAC_BYTES, NO_MAC, GidEntry
from layouts.enums.cmd import Op, Status
from layouts.enums.roce import RoceL3Type, RoceVersion
from layouts.function import roce as layout

if TYPE_CHECKING:
    from emu.device.port.eth.roce.gids import GidTable
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca

_GROUP = 1
_LAST_VLAN = 4094


def _index(
    caps: Caps, gids: GidTable, cmd: layout.query_roce_address_in | layout.set_roce_address_in
) -> int:
    """Return an index in the table.

    Raises BAD_OP_ERR without RoCE, BAD_PARAM_ERR beyond the table's end.
    """
    if not caps.general.roce:
        raise CmdError(Status.BAD_OP_ERR, "port has no RoCE")
    index = cmd.roce_address_index
    if index >= len(gids):
        raise BadParamError("roce_address_index beyond the table", f"{index}")
    return index


@command(Op.SET_ROCE_ADDRESS, privileged=True)
def set_roce_address(
    hca: Hca, cmd: layout.set_roce_address_in, out: layout.set_roce_address_out
) -> None:
    """Write an entry of the table; an address of zeros empties it, whatever its version.

    The manager of a switch writes an entry without a MAC address, for messages to itself: the entry
    gets the vPort's MAC. Its type is always IPv4 (core/rdma.c: mlx5_rdma_add_roce_addr). Wire and
    switch are notified. Refuse with BAD_PARAM_ERR a version, type, MAC address or VLAN that is
    invalid, and an index beyond the table; without RoCE refuse with BAD_OP_ERR.
    """
    index, given = _index(hca.caps, hca.gids, cmd), cmd.roce_address
    mac = (given.source_mac_47_32 << 32 | given.source_mac_31_0).to_bytes(MAC_BYTES, "big")
    if mac == NO_MAC and hca.eswitch is not None:
        mac = hca.nic_vport.permanent_address
    entry = GidEntry(
        bytes(given.source_l3_address),
        mac,
        int(given.vlan_id) if given.vlan_valid else None,
        int(given.roce_l3_type),
        int(given.roce_version),
    )
    if not entry.is_empty:
        _check(entry, is_manager=hca.eswitch is not None)
    hca.gids.put(index, entry)
    lifecycle.announce(hca)


def _check(entry: GidEntry, *, is_manager: bool) -> None:
    """Refuse an entry with an invalid version, L3 type, MAC address or VLAN with BAD_PARAM_ERR.

    ``is_manager`` permits the type IPv4 for any address.
    """
    if entry.version not in (RoceVersion.VERSION_1, RoceVersion.VERSION_2):
        raise BadParamError("RoCE version not supported", f"{entry.version}")
    # Version 1 has one header for both kinds of addresses, so their type is not checked.
    expected = RoceL3Type.IPV4 if is_ipv4(entry.gid) else RoceL3Type.IPV6
    if (
        entry.version == RoceVersion.VERSION_2
        and entry.l3_type != expected
        and not (is_manager and entry.l3_type == RoceL3Type.IPV4)
    ):
        raise BadParamError("roce_l3_type does not match the address", f"{entry.l3_type}")
    if entry.mac == NO_MAC or entry.mac[0] & _GROUP:
        raise BadParamError("source MAC address is zero or multicast", entry.mac.hex(":"))
    if entry.vlan is not None and not 0 < entry.vlan <= _LAST_VLAN:
        raise BadParamError("VLAN ID is not 1 to 4094", f"{entry.vlan}")


@command(Op.QUERY_ROCE_ADDRESS, privileged=True)
def query_roce_address(
    hca: Hca, cmd: layout.query_roce_address_in, out: layout.query_roce_address_out
) -> None:
    """Return an entry of the table unchanged.

    Refuse an index beyond the table with BAD_PARAM_ERR, and a port without RoCE with BAD_OP_ERR.
    """
    entry = hca.gids[_index(hca.caps, hca.gids, cmd)]
    mac = int.from_bytes(entry.mac, "big")
    out.roce_address.assign(
        {
            "source_l3_address": entry.gid,
            "vlan_valid": int(entry.vlan is not None),
            "vlan_id": entry.vlan or 0,
            "source_mac_47_32": mac >> 32,
            "source_mac_31_0": mac & 0xFFFFFFFF,
            "roce_l3_type": entry.l3_type,
            "roce_version": entry.version,
        }
    )

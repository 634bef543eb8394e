"""Registers about a link: its state, why it is down, its cable (PRM "PDDR", "PPAOS", "SLTP").

``ethtool`` prints the cause of a missing link (core/en_ethtool.c: mlx5e_get_link_ext_state), and
``mstlink`` all pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from emu.device.errors import BadParamError
from emu.device.port.eth.physical import fec, module
from firmware_cmds.regs.ib_regs import speeds
from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums.caps import PortType
from layouts.enums.regs import ProtoMask, RegId
from layouts.enums.vport import PhysState
from layouts.regs import link_info_regs as layout

if TYPE_CHECKING:
    from emu.device.models import Model
    from emu.device.port.eth.port import EthPort
    from emu.device.port.ib.port import IbPort
    from emu.device.state.hca import Hca
    from layouts.prm import Prm


class LinkPage(IntEnum):
    """Values of pddr_reg.page_select."""

    OPERATION = 0
    TROUBLESHOOTING = 1
    MODULE = 3


class PhyState(IntEnum):
    """State of the port's physical layer (pddr_operation_info_page.phy_mngr_fsm_state)."""

    DISABLED = 0
    POLLING = 2
    ACTIVE = 3


class LinkCause(IntEnum):
    """Why there is no link (monitor opcodes, as mlx5e_link_ext_state_opcode_map has them)."""

    NO_ISSUE = 0
    CLOSED_BY_COMMAND = 1
    CABLE_UNPLUGGED = 1024


_MESSAGES: Final = {
    LinkCause.NO_ISSUE: b"No issue was observed",
    LinkCause.CLOSED_BY_COMMAND: b"The port is closed by command. Please check that the "
    b"interface is enabled",
    LinkCause.CABLE_UNPLUGGED: b"Cable is unplugged",
}

_AN_GOOD, _IB_LINK_UP = 6, 7
"""eth_an_fsm_state and ib_phy_fsm_state of a link that is up."""
_CLAUSE_73, _STANDARD_IB = 2, 4
"""neg_mode_active of a negotiated link."""

_REGULAR_OPERATION: Final = 0
_PHY_STATUS: Final = {PhyState.POLLING: 0, PhyState.ACTIVE: 1, PhyState.DISABLED: 2}
"""ppaos_reg.phy_status: down, up, down by command."""

_PASSIVE_COPPER, _UNPLUGGED = 3, 4
"""Values of cable_type."""
_IB_LANES: Final = 4

_NM_28, _NM_16, _NM_7 = 1, 3, 4
_PROCESS: Final = {0x20B: _NM_28, 0x218: _NM_7, 0x21C: _NM_7}
"""sltp_reg.version by the chip's hardware id: the layout of a lane's settings (mlxlink_enums.h:
PRODUCT_TECHNOLOGY). Chips between ConnectX-5 and -6 Dx have that of 16 nm."""


class _Link(NamedTuple):
    """Masks of a link's modes in the operation page, and how they were agreed on."""

    protocol: ProtoMask
    able: int
    chosen: int
    active: int
    fec: int
    """Bit number of the code in pplm_reg.fec_mode_active."""
    negotiation: int


def _state(hca: Hca) -> tuple[PhyState, LinkCause]:
    """Return the state of the physical layer, and the cause if there is no link."""
    if hca.model.port_type is PortType.IB:
        is_disabled = hca.ib.phys_state is PhysState.DISABLED
        has_link = hca.ib.has_link
    else:
        is_disabled = not hca.eth.admin_up
        has_link = hca.eth.is_up
    if has_link:
        return PhyState.ACTIVE, LinkCause.NO_ISSUE
    if is_disabled:
        return PhyState.DISABLED, LinkCause.CLOSED_BY_COMMAND
    cause = LinkCause.CLOSED_BY_COMMAND if hca.port.has_cable else LinkCause.CABLE_UNPLUGGED
    return PhyState.POLLING, cause


def _ib_link(port: IbPort, model: Model) -> _Link:
    """Return the InfiniBand link's masks: the width above the speeds."""
    width, able = model.ib_link_width_oper << 16, speeds(model)
    active = port.width_oper << 16 | port.proto_oper
    chosen = width | (port.proto_admin or able)
    return _Link(ProtoMask.IB, width | able, chosen, active, 0, _STANDARD_IB)


def _eth_link(port: EthPort) -> _Link:
    """Return the Ethernet link's masks: extended ones, if the port has them."""
    modes = port.modes
    able, chosen, active = (
        extended or legacy for legacy, extended in (modes.masks, modes.chosen, modes.in_use)
    )
    code = fec.in_use(modes.mode, port.fec_admin)
    negotiation = 0 if port.an_disabled else _CLAUSE_73
    return _Link(ProtoMask.EN, able, chosen, active, code.bit_length() - 1, negotiation)


def _operation(hca: Hca) -> Prm:
    """Return the operation page: the port's state, its modes and error correction.

    Without a link, the fields of the active mode are 0.
    """
    is_ib = hca.model.port_type is PortType.IB
    link = _ib_link(hca.ib, hca.model) if is_ib else _eth_link(hca.eth)
    state, _ = _state(hca)
    page = layout.pddr_operation_info_page.new(
        proto_active=link.protocol,
        phy_mngr_fsm_state=state,
        phy_manager_link_enabled=link.chosen,
        core_to_phy_link_enabled=link.chosen,
        cable_proto_cap=link.able if hca.port.has_cable else 0,
    )
    if state is PhyState.ACTIVE:
        page.link_active, page.fec_mode_active = link.active, link.fec
        page.neg_mode_active = link.negotiation
        if is_ib:
            page.ib_phy_fsm_state = _IB_LINK_UP
        else:
            page.eth_an_fsm_state = _AN_GOOD
    return page


def _troubleshooting(hca: Hca) -> Prm:
    """Return the cause of a missing link, as a number and as a sentence."""
    _, cause = _state(hca)
    page = layout.pddr_troubleshooting_page.new(monitor_opcode=cause)
    page.status_message = _MESSAGES[cause].ljust(len(page.status_message), b"\0")
    return page


def _module(hca: Hca) -> Prm:
    """Return what the cable's EEPROM says of the cable; no more than that no cable is plugged in.

    The cable measures nothing: temperature, voltage and powers are 0.
    """
    page = layout.pddr_module_info.new(cable_type=_UNPLUGGED)
    if hca.port.has_cable:
        lanes = _IB_LANES if hca.model.port_type is PortType.IB else hca.eth.modes.lanes
        page.cable_type = _PASSIVE_COPPER
        page.assign(module.described(lanes))
    return page


_PAGES: Mapping[int, Callable[[Hca], Prm]] = {
    LinkPage.OPERATION: _operation,
    LinkPage.TROUBLESHOOTING: _troubleshooting,
    LinkPage.MODULE: _module,
}


def _pddr(hca: Hca, reg: layout.pddr_reg) -> None:
    """Fill in one page about the link. Refuse another page with BAD_PARAM_ERR."""
    page = _PAGES.get(reg.page_select)
    if page is None:
        raise BadParamError("no such page", f"{reg.page_select}")
    reg.page_data = bytes(page(hca)).ljust(len(reg.page_data), b"\0")


def _sltp(model: Model, reg: layout.sltp_reg) -> None:
    """Fill in the layout of a lane's transmitter settings, and that there are none (``status`` 0).

    mstlink tells the chip's process by the layout.
    """
    reg.version = _PROCESS.get(model.hw_id, _NM_16)
    reg.status = 0


def _ppaos(hca: Hca, reg: layout.ppaos_reg) -> None:
    """Fill in the state of the physical layer; the port has no test mode (PRBS)."""
    state, _ = _state(hca)
    reg.phy_test_mode_admin = reg.phy_test_mode_status = _REGULAR_OPERATION
    reg.phy_status = _PHY_STATUS[state]


REGISTERS: dict[int, AccessRegister[Any]] = {
    RegId.PDDR: AccessRegister(layout.pddr_reg, _pddr),
    RegId.PPAOS: AccessRegister(layout.ppaos_reg, _ppaos),
    **of_part(lambda hca: hca.model, {RegId.SLTP: AccessRegister(layout.sltp_reg, _sltp)}),
}
"""Registers of every function."""

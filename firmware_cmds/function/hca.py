"""Bring the function up and down (PRM "HCA initialization")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import OpenField, command
from emu.device.engine import lifecycle, vhca_state
from emu.device.engine.events import page_request
from emu.device.errors import BadParamError, CmdError
from emu.device.state.caps import GROUPS
from emu.device.state.hca import HcaState
from layouts.enums.caps import CapMode, CapType, PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import TeardownProfile
from layouts.function import caps
from layouts.function import hca as layout
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

SUPPORTED_ISSI = 0b11
"""Interface step sequence ids 0 and 1, one bit each."""

MELLANOX_OUI = 0x0002C9


@command(Op.ENABLE_HCA, needs=HcaState.DISABLED, privileged=True, of_others=True)
def enable_hca(hca: Hca, cmd: layout.enable_hca_in, out: layout.enable_hca_out) -> None:
    """Enable the function; a crash kernel's command also resets what the old kernel left running.

    From the manager, for another function, it only allows that function's driver to start.

    The reset frees all objects and firmware pages. Refuse with BAD_SYS_STATE_ERR a function that
    its manager has not enabled or not given its pages yet, with NO_RES_ERR one whose manager has
    none.
    """
    one = hca.sub_function
    if cmd.function_id:
        if one is None:
            _enable_virtual(hca)
        else:
            vhca_state.enable(one, hca.managed_by.events, hca.managed_by.caps)
        return
    if one is not None:
        vhca_state.check_entry(one)
    if not hca.vhca.may_begin:
        raise CmdError(Status.BAD_SYS_STATE_ERR, "function is disabled by its manager")
    if hca.given_pages.is_waiting:
        raise CmdError(Status.BAD_SYS_STATE_ERR, "function waits for firmware pages")
    if hca.given_pages.is_refused:
        raise CmdError(Status.NO_RES_ERR, "physical function has no pages for this function")
    if hca.state is not HcaState.DISABLED:
        lifecycle.shut_down(hca)
    if hca.vhca.is_virtual and hca.model.port_type is PortType.IB:
        hca.ib.take_guids()
        lifecycle.announce(hca)
    hca.state = HcaState.ENABLED
    if one is not None:
        vhca_state.driver_started(one, hca.managed_by.events, hca.managed_by.caps)


def _enable_virtual(hca: Hca) -> None:
    """Let a virtual function's driver start, once the manager's driver has given its pages."""
    lifecycle.set_enabled(hca.vhca, enabled=True)
    pages = hca.given_pages
    pages.want(hca.fwpages.boot_pages)
    if pages.is_waiting:
        page_request.request(hca.vhca, pages.wanted - len(pages))


@command(Op.DISABLE_HCA, needs=HcaState.DISABLED, privileged=True, of_others=True)
def disable_hca(hca: Hca, cmd: layout.disable_hca_in, out: layout.disable_hca_out) -> None:
    """Disable the function; refused while the HCA is initialized.

    From the manager, for a sub-function, it asks that function's driver to leave. A virtual
    function is disabled at once: its driver has left by then, or its machine has ended
    (core/sriov.c: mlx5_device_disable_sriov). The manager's driver is asked to take back the pages
    of a virtual function. The refusal is BAD_SYS_STATE_ERR.
    """
    one = hca.sub_function
    if cmd.function_id:
        if one is None:
            lifecycle.disable(hca.vhca)
            if surplus := hca.given_pages.surplus:
                page_request.request(hca.vhca, -surplus)
        else:
            vhca_state.disable(one, hca.managed_by.events, hca.managed_by.caps)
        return
    if hca.state is HcaState.INITIALIZED:
        raise CmdError(Status.BAD_SYS_STATE_ERR, "TEARDOWN_HCA must precede DISABLE_HCA")
    hca.state = HcaState.DISABLED
    if one is not None:
        vhca_state.driver_ended(one, hca.managed_by.events, hca.managed_by.caps)


@command(Op.INIT_HCA, needs=HcaState.ENABLED, newer="sw_owner_id", privileged=True)
def init_hca(hca: Hca, cmd: layout.init_hca_in, out: layout.init_hca_out) -> None:
    """Allow objects to be created; their limits are the capabilities that the driver has set.

    On InfiniBand enable the port. Refuse with BAD_SYS_STATE_ERR an HCA that is already initialized.
    """
    if hca.state is HcaState.INITIALIZED:
        raise CmdError(Status.BAD_SYS_STATE_ERR, "HCA is already initialized")
    hca.initialize()
    if hca.model.port_type is PortType.IB and not hca.port.admin_up:
        # A reset enables an Ethernet port, which then waits for its driver.
        lifecycle.set_admin(hca, up=True)


@command(Op.TEARDOWN_HCA, privileged=True)
def teardown_hca(hca: Hca, cmd: layout.teardown_hca_in, out: layout.teardown_hca_out) -> None:
    """Undo INIT_HCA: gracefully when the driver has destroyed its objects, or by force.

    A fast teardown needs no preparation: the driver writes nic_interface next, and that write shuts
    the function down (core/fw.c: mlx5_cmd_fast_teardown_hca). ``out.state`` stays 0, success.

    Both other profiles free all objects: a graceful close returns to ENABLED, a forced one to
    DISABLED without firmware pages. Refuse an unknown profile with BAD_PARAM_ERR.
    """
    if cmd.profile == TeardownProfile.GRACEFUL_CLOSE:
        lifecycle.teardown(hca)
    elif cmd.profile == TeardownProfile.FORCE_CLOSE:
        lifecycle.shut_down(hca)
    elif cmd.profile != TeardownProfile.PREPARE_FAST_TEARDOWN:
        raise BadParamError("unknown teardown profile", f"{cmd.profile}")


@command(Op.QUERY_ISSI, needs=HcaState.ENABLED)
def query_issi(hca: Hca, cmd: layout.query_issi_in, out: layout.query_issi_out) -> None:
    """Return the interface step sequence ids: those supported and the current one."""
    out.current_issi = hca.driver.issi
    out.supported_issi_dw0 = SUPPORTED_ISSI


@command(Op.SET_ISSI, needs=HcaState.ENABLED, privileged=True)
def set_issi(hca: Hca, cmd: layout.set_issi_in, out: layout.set_issi_out) -> None:
    """Choose the interface step; 1 enables RMP and XRC SRQ commands.

    Refuse another one with BAD_PARAM_ERR.
    """
    if not SUPPORTED_ISSI >> min(cmd.current_issi, 31) & 1:
        raise BadParamError("ISSI not supported", f"{cmd.current_issi}")
    hca.driver.issi = cmd.current_issi


def _group(cmd: caps.query_hca_cap_in | caps.set_hca_cap_in) -> type[Prm] | None:
    group = cmd.op_mod >> 1
    return GROUPS[CapType(group)].prm if group in GROUPS else None


def _current(tables: ObjectTables, cmd: caps.set_hca_cap_in) -> bytes | None:
    group = cmd.op_mod >> 1
    return tables.caps.page(group, CapMode.CUR) if tables.caps.has(group) else None


@command(
    Op.QUERY_HCA_CAP, needs=HcaState.ENABLED, opened=OpenField("capability", _group), of_others=True
)
def query_hca_cap(hca: Hca, cmd: caps.query_hca_cap_in, out: caps.query_hca_cap_out) -> None:
    """Return a group of capabilities, or the head of its page; op_mod is ``group << 1 | mode``.

    Refuse with BAD_PARAM_ERR a number that is no group, and a group that was turned off. Groups
    without an implementation read as zeros and are counted for the summary.
    """
    group = cmd.op_mod >> 1
    if not hca.caps.has(group):
        hca.counts.unhandled.cap_groups[group] += 1
    out.capability = hca.caps.page(group, CapMode(cmd.op_mod & 1))


@command(
    Op.SET_HCA_CAP,
    needs=HcaState.ENABLED,
    opened=OpenField("capability", _group, _current),
    privileged=True,
    of_others=True,
)
def set_hca_cap(hca: Hca, cmd: caps.set_hca_cap_in, out: caps.set_hca_cap_out) -> None:
    """Set capabilities below their maximum, before INIT_HCA only.

    A value that an adapter's manager sets for another function is that function's maximum, also
    after the function's resets. Refuse an initialized HCA with BAD_SYS_STATE_ERR, an unknown group
    or a value above the maximum with BAD_PARAM_ERR.
    """
    if hca.state is HcaState.INITIALIZED:
        raise CmdError(Status.BAD_SYS_STATE_ERR, "capabilities can only be set before INIT_HCA")
    group, page = cmd.op_mod >> 1, bytes(cmd.capability)
    if cmd.other_function:
        hca.caps.grant(group, page)
        hca.vhca.granted.pop(group, None)  # a reset sets the groups again in this order
        hca.vhca.granted[group] = page
    else:
        hca.caps.set(group, page)


@command(Op.QUERY_ADAPTER)
def query_adapter(
    tables: ObjectTables, cmd: layout.query_adapter_in, out: layout.query_adapter_out
) -> None:
    """Return the vendor id and the board id.

    The first is Mellanox' OUI, the second the PSID.
    """
    block = out.query_adapter_struct
    block.ieee_vendor_id = MELLANOX_OUI
    block.vsd_contd_psid = tables.model.psid.encode().ljust(16, b"\0")


@command(Op.SET_DRIVER_VERSION, privileged=True)
def set_driver_version(
    hca: Hca, cmd: layout.set_driver_version_in, out: layout.set_driver_version_out
) -> None:
    """Store the driver's name ("Linux,mlx5_core,6.12.107") for ``mlx5emu status``.

    OpenBSD's if_mcx.c and illumos' mlxcx give up when it is refused. Bytes outside ASCII are stored
    as escapes.
    """
    name = bytes(cmd.driver_version).partition(b"\0")[0]
    hca.driver.version = name.decode("ascii", errors="backslashreplace")

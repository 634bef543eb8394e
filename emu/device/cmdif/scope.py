"""Resolution of the function that a command addresses: the sender, or one that it names by number.

A command names another function by ``function_id``, another virtual port by ``other_vport`` and
``vport_number``, and a port by its number; a register names a port too. The dispatcher resolves the
function from the command's structure before the handler runs, and passes it to the handler. The
adapter (``emu.device.adapter``) knows which functions exist. The manager may name its other
functions, in commands with ``Command.of_others``. Other senders get the same refusal as for a
function that does not exist.

Source: PRM "Vport commands", "ENABLE_HCA"; core/vport.c, core/pagealloc.c: mlx5_get_ec_function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from emu.device.errors import BadParamError
from emu.device.state.hca import Hca
from layouts.prm import Prm

Resolver = Callable[[Hca, Any], Hca]
"""Returns the addressed function, from the sender and a view of the input."""

NUM_PORTS: Final = 1


def other_function(hca: Hca, function_id: int) -> Hca:
    """Return another function of the sender's adapter, by its number.

    BAD_PARAM_ERR unless the sender is the manager, for the sender's own number, and for a function
    that does not exist or has no power.
    """
    other = hca.vhca.other(function_id)
    if other is None:
        raise BadParamError("sender manages no such function", f"function_id {function_id:#x}")
    return other


def other_vport(hca: Hca, number: int) -> Hca:
    """Return the function of another vPort of the sender's adapter.

    BAD_PARAM_ERR unless the sender is the manager, and for a vPort without a function that has
    power. The manager of a switch may also name its own vPort (core/eswitch.c of Linux 6.1:
    esw_vport_change_handle_locked).
    """
    if hca.eswitch is not None and number == hca.vhca.vport_number:
        return hca
    other = hca.vhca.other(number)
    if other is None:
        raise BadParamError("no such vport", f"{number}")
    return other


def check_port(hca: Hca, number: int) -> Hca:
    """Return the sender, which owns the only port; refuse a number above 1 with BAD_PARAM_ERR."""
    if number > NUM_PORTS:
        raise BadParamError("no such port", f"{number}")
    return hca


def _embedded(hca: Hca, flag: int) -> Hca:
    """Return the sender; refuse a set flag with BAD_PARAM_ERR, as no embedded CPU exists."""
    if flag:
        raise BadParamError("no embedded CPU exists", "embedded CPU function named")
    return hca


def _vport(hca: Hca, flag: int, number: int) -> Hca:
    """Return the function of a vPort; number 0 without the flag is the sender's own.

    Refuses with BAD_PARAM_ERR like :func:`other_vport`.
    """
    return other_vport(hca, number) if flag or number else hca


def _other_vport(hca: Hca, cmd: Any) -> Hca:
    return _vport(hca, cmd.other_vport, cmd.vport_number)


def _other_table_vport(hca: Hca, cmd: Any) -> Hca:
    return _vport(hca, cmd.table_of_other_vport, cmd.table_vport_number)


def _other_function(hca: Hca, cmd: Any) -> Hca:
    """Return the function of ``function_id``; the sender unless ``other_function`` is set.

    Refuses with BAD_PARAM_ERR like :func:`other_function`, and for a set ``ec_vf_function``.
    """
    if not cmd.other_function:
        return hca
    return other_function(_embedded(hca, cmd.ec_vf_function), cmd.function_id)


def _function(hca: Hca, cmd: Any) -> Hca:
    hca = _embedded(hca, cmd.embedded_cpu_function)
    return other_function(hca, cmd.function_id) if cmd.function_id else hca


_BY_FIELD: Final[dict[str, Resolver]] = {
    "other_vport": _other_vport,
    "table_of_other_vport": _other_table_vport,
    "other_function": _other_function,
    "embedded_cpu_function": _function,
    "port_num": lambda hca, cmd: check_port(hca, cmd.port_num),
    "vhca_port_num": lambda hca, cmd: check_port(hca, cmd.vhca_port_num),
    "port": lambda hca, cmd: check_port(hca, cmd.port),
    "local_port": lambda hca, reg: check_port(hca, reg.local_port),
}
"""Fields by which a structure can name another function, with their resolvers."""


def resolvers(layout: type[Prm], besides: tuple[str, ...] = ()) -> tuple[Resolver, ...]:
    """Return the resolvers for a command or register of this structure.

    One for each field by which it can name a function; empty: only the sender is addressed.
    ``besides``: fields that do not name a function here.
    """
    names = {field.name for field in layout.fields}.difference(besides)
    return tuple(resolve for name, resolve in _BY_FIELD.items() if name in names)


def addressed(hca: Hca, view: Prm, by: tuple[Resolver, ...], *, of_others: bool = False) -> Hca:
    """Return the function that a command or register addresses: the sender, or another one.

    Raises CmdError with BAD_PARAM_ERR for a function or port that does not exist, and for another
    function than the sender unless ``of_others``.
    """
    target = hca
    for resolve in by:
        target = resolve(target, view)
    if target is not hca and not of_others:
        raise BadParamError(
            "command may not address another function", f"vport {target.vhca.vport_number}"
        )
    return target

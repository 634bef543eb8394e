"""Which function a command means: the sender, or one that it names by number.

A command names another function by ``function_id``, another virtual port by ``other_vport`` and
``vport_number``, and a port by its number; a register names a port as well. The dispatcher resolves
what a command's structure can name before the handler runs, and hands the handler the function that
is meant, so that no handler asks by itself. Who is there is up to the adapter
(``emu.device.adapter``): the manager may name its other functions, in commands that say so
(``Command.of_others``). Whoever may not is told the same as of a function that is not there.

Source: PRM "Vport commands", "ENABLE_HCA"; core/vport.c, core/pagealloc.c: mlx5_get_ec_function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from emu.device.errors import CmdError
from emu.device.state.hca import Hca
from layouts.codec import View
from layouts.enums import Status
from layouts.prm import Prm

Resolver = Callable[[Hca, Any], Hca]
"""From the sender and a view of the input to the function that is meant."""

NUM_PORTS: Final = 1


def other_function(hca: Hca, function_id: int) -> Hca:
    """Another function, by its number. Raises BAD_PARAM_ERR when the sender manages none such."""
    other = hca.vhca.other(function_id)
    if other is None:
        raise CmdError(
            Status.BAD_PARAM_ERR, "no such function to manage", f"function_id {function_id:#x}"
        )
    return other


def other_vport(hca: Hca, number: int) -> Hca:
    """The function of another virtual port. Raises BAD_PARAM_ERR when the sender manages none.

    Who manages a switch names its own one like the others (core/eswitch.c of Linux 6.1:
    esw_vport_change_handle_locked).
    """
    if hca.eswitch is not None and number == hca.vhca.vport_number:
        return hca
    other = hca.vhca.other(number)
    if other is None:
        raise CmdError(Status.BAD_PARAM_ERR, "no such vport", f"{number}")
    return other


def port(hca: Hca, number: int) -> Hca:
    """The function of a port; 0 leaves the choice to the device. Raises BAD_PARAM_ERR."""
    if number > NUM_PORTS:
        raise CmdError(Status.BAD_PARAM_ERR, "no such port", f"{number}")
    return hca


def _embedded(hca: Hca, flag: int) -> Hca:
    if flag:
        raise CmdError(
            Status.BAD_PARAM_ERR, "there is no embedded CPU", "a function of one is named"
        )
    return hca


def _vport(hca: Hca, flag: int, number: int) -> Hca:
    """The sender's own virtual port is number 0, without the flag."""
    return other_vport(hca, number) if flag or number else hca


def _other_vport(hca: Hca, cmd: Any) -> Hca:
    return _vport(hca, cmd.other_vport, cmd.vport_number)


def _other_table_vport(hca: Hca, cmd: Any) -> Hca:
    return _vport(hca, cmd.table_of_other_vport, cmd.table_vport_number)


def _other_function(hca: Hca, cmd: Any) -> Hca:
    """``function_id`` counts only with ``other_function``, which is never the sender."""
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
    "port_num": lambda hca, cmd: port(hca, cmd.port_num),
    "vhca_port_num": lambda hca, cmd: port(hca, cmd.vhca_port_num),
    "port": lambda hca, cmd: port(hca, cmd.port),
    "local_port": lambda hca, reg: port(hca, reg.local_port),
}
"""What tells that a structure can name another function, and how it is found."""


def resolvers(layout: Prm, besides: tuple[str, ...] = ()) -> tuple[Resolver, ...]:
    """How the function is found that a command or register of this structure means.

    ``besides``: fields that name something else.
    """
    names = {field.name for field in layout.fields}.difference(besides)
    return tuple(resolve for name, resolve in _BY_FIELD.items() if name in names)


def meant(hca: Hca, view: View, by: tuple[Resolver, ...], *, of_others: bool = False) -> Hca:
    """The function that a command or register means. Raises CmdError when there is none.

    ``of_others``: it may be another one than the sender.
    """
    target = hca
    for resolve in by:
        target = resolve(target, view)
    if target is not hca and not of_others:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "command is only about the function that sends it",
            f"vport {target.vhca.vport_number}",
        )
    return target

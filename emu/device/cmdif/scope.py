"""Which function a command means: the sender, or one that it names by number.

A command names another function by ``function_id``, another virtual port by ``other_vport`` and
``vport_number``, and a port by its number; a register names a port as well. The dispatcher resolves
what a command's structure can name before the handler runs, and hands the handler the function that
is meant, so that no handler asks by itself. An adapter with several functions or ports would answer
here.

Source: PRM "Vport commands", "ENABLE_HCA"; core/vport.c, core/pagealloc.c: mlx5_get_ec_function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.device.errors import CmdError
from emu.device.state.hca import Hca
from layouts.enums import Status
from layouts.prm import Prm

Resolver = Callable[[Hca, Any], Hca]
"""From the sender and a view of the input to the function that is meant."""

NUM_PORTS = 1


def function(hca: Hca, function_id: int) -> Hca:
    """The function with a number. Raises BAD_PARAM_ERR: a function has none below it."""
    if function_id:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "a function may only manage itself",
            f"function_id {function_id:#x}",
        )
    return hca


def vport(hca: Hca, number: int) -> Hca:
    """The function of a virtual port. Raises BAD_PARAM_ERR: each has only its own, number 0."""
    if number:
        raise CmdError(Status.BAD_PARAM_ERR, "no such vport", f"{number}")
    return hca


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


def _other_vport(hca: Hca, cmd: Any) -> Hca:
    return vport(hca, cmd.vport_number or cmd.other_vport)


def _other_table_vport(hca: Hca, cmd: Any) -> Hca:
    return vport(hca, cmd.table_vport_number or cmd.table_of_other_vport)


def _other_function(hca: Hca, cmd: Any) -> Hca:
    """``function_id`` counts only with ``other_function``, which is never the sender."""
    if not cmd.other_function:
        return hca
    return function(_embedded(hca, cmd.ec_vf_function), cmd.function_id or 1)


def _function(hca: Hca, cmd: Any) -> Hca:
    return function(_embedded(hca, cmd.embedded_cpu_function), cmd.function_id)


_BY_FIELD: dict[str, Resolver] = {
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


def resolvers(layout: Prm) -> tuple[Resolver, ...]:
    """How the function is found that a command or register of this structure means."""
    names = {field.name for field in layout.fields}
    return tuple(resolve for name, resolve in _BY_FIELD.items() if name in names)


def meant(hca: Hca, view: Any, by: tuple[Resolver, ...]) -> Hca:
    """The function that a command or register means. Raises CmdError when there is none."""
    for resolve in by:
        hca = resolve(hca, view)
    return hca

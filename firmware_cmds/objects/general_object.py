"""General objects: reserved queue pair numbers, meters, samplers, definers, and others.

A process that creates its queue pairs outside the driver reserves a number for rdma_cm, which
distinguishes connections by it (rdma-core's mlx5dv_reserved_qpn_alloc).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.queues.queue import ReservedQpn
from firmware_cmds.function import crypto_login, dek
from firmware_cmds.memory import sw_icm
from firmware_cmds.objects import scheduling
from firmware_cmds.steering import flow_meter, flow_sampler, geneve_option, match_definer
from layouts.enums.cmd import Op, Status
from layouts.enums.general_object import GeneralObject
from layouts.objects import general_object as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca


_PIECE_BYTES = 8


class _Maker(Protocol):
    """Module about one type of object."""

    def create(self, hca: Hca, cmd: layout.create_general_object_in, /) -> int:
        """Create the object; return its number."""

    def destroy(self, hca: Hca, number: int, /) -> None:
        """Destroy the object."""


_MAKERS: Mapping[int, _Maker] = {
    GeneralObject.ENCRYPTION_KEY: dek,
    GeneralObject.CRYPTO_LOGIN: crypto_login,
    GeneralObject.FLOW_METER_ASO: flow_meter,
    GeneralObject.GENEVE_TLV_OPT: geneve_option,
    GeneralObject.MATCH_DEFINER: match_definer,
    GeneralObject.SAMPLER: flow_sampler,
    GeneralObject.SCHEDULING_ELEMENT: scheduling,
    GeneralObject.SW_ICM: sw_icm,
}
"""Modules of the objects that have structures of their own, by type."""


def _check_type(caps: Caps, obj_type: int) -> None:
    """Refuse with BAD_PARAM_ERR a type that is not in general_obj_types."""
    if not caps.general.general_obj_types >> obj_type & 1:
        raise BadParamError("general object type not supported", f"{obj_type:#x}")


@command(Op.CREATE_GENERAL_OBJECT)
def create_general_object(
    hca: Hca, cmd: layout.create_general_object_in, out: layout.create_general_object_out
) -> None:
    """Reserve one queue pair number (granularity is 0), or create an object of another type.

    Refuse with BAD_PARAM_ERR a type that is not in general_obj_types. A reservation of more than
    one number gets LIM_ERR. Modules of the other types add refusals of their own.
    """
    _check_type(hca.caps, cmd.op_mod)
    if cmd.op_mod in _MAKERS:
        out.obj_id = _MAKERS[cmd.op_mod].create(hca, cmd)
        return
    if cmd.log_obj_range:
        raise CmdError(
            Status.LIM_ERR, "more numbers than log_reserved_qpn_granularity allows",
            f"{1 << cmd.log_obj_range}",
        )  # fmt: skip
    out.obj_id = hca.reserved_qpns.add(ReservedQpn())


@command(Op.MODIFY_GENERAL_OBJECT)
def modify_general_object(
    hca: Hca, cmd: layout.modify_general_object_in, out: layout.modify_general_object_out
) -> None:
    """Change a scheduling element; the other types have no field to change.

    Refuse those with BAD_PARAM_ERR, as a type that is not in general_obj_types.
    """
    _check_type(hca.caps, cmd.op_mod)
    if cmd.op_mod != GeneralObject.SCHEDULING_ELEMENT:
        raise BadParamError("general object of this type cannot be modified", f"{cmd.op_mod:#x}")
    scheduling.modify(hca, cmd)


_READERS: Mapping[int, Callable[[Hca, int], bytes]] = {
    GeneralObject.ENCRYPTION_KEY: dek.query,
    GeneralObject.CRYPTO_LOGIN: crypto_login.query,
    GeneralObject.SAMPLER: flow_sampler.query,
}


@command(Op.QUERY_GENERAL_OBJECT)
def query_general_object(
    hca: Hca, cmd: layout.query_general_object_in, out: layout.query_general_object_out
) -> None:
    """Return the structure of an object that can be queried, up to the output's space.

    Encryption keys, crypto logins and samplers can be queried; other types get BAD_PARAM_ERR.
    """
    _check_type(hca.caps, cmd.op_mod)
    if cmd.op_mod not in _READERS:
        raise BadParamError("general object of this type cannot be queried", f"{cmd.op_mod:#x}")
    context = _READERS[cmd.op_mod](hca, cmd.obj_id)
    out.obj_id = cmd.obj_id
    places = out.object
    for number in range(min(len(places), len(context) // _PIECE_BYTES)):
        places[number] = context[number * _PIECE_BYTES :][:_PIECE_BYTES]


@command(Op.DESTROY_GENERAL_OBJECT)
def destroy_general_object(
    hca: Hca, cmd: layout.destroy_general_object_in, out: layout.destroy_general_object_out
) -> None:
    """Destroy an object, or free a reserved queue pair number.

    Refuse with BAD_PARAM_ERR a type that is not in general_obj_types.
    """
    _check_type(hca.caps, cmd.op_mod)
    if cmd.op_mod in _MAKERS:
        _MAKERS[cmd.op_mod].destroy(hca, cmd.obj_id)
        return
    hca.reserved_qpns.remove(cmd.obj_id)

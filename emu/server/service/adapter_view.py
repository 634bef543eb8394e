"""A server's report about the adapter of a function: embedded switch, sub-functions, LAG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emu.server.service.endpoints import vf_name
from layouts.enums.hca import VhcaState

if TYPE_CHECKING:
    from emu.device.function.function import Function
    from emu.device.state.hca import Hca


def virtual(functions: Sequence[Function], index: int) -> dict[str, Any]:
    """Return the place of a virtual function that SR-IOV enables; empty for other functions.

    ``vf`` has the index of its physical function, its number there from 0 on, and its name of both.
    ``enabled`` says whether the physical function has enabled it.
    """
    vhca = functions[index].vhca
    if not vhca.is_virtual:
        return {}
    manager = vhca.adapter.manager
    physical = next(at for at, one in enumerate(functions) if one.vhca is manager)
    number = vhca.vport_number - 1
    name = vf_name(physical, number)
    return {
        "vf": {
            "function": physical, "number": number, "name": name, "enabled": vhca.vf_enabled
        }
    }  # fmt: skip


def vf_names(functions: Sequence[Function]) -> dict[str, int]:
    """Return the index of each virtual function by its name, as in ``0.vf1``."""
    return {
        vf["name"]: index
        for index in range(len(functions))
        if (vf := virtual(functions, index).get("vf"))
    }


def adapter(hca: Hca) -> dict[str, Any]:
    """Return the objects that a function manages, as plain values; empty if it manages none.

    ``vfs`` counts the virtual functions of a physical one, all and those enabled. ``switch`` (of an
    E-Switch manager) has the sub-functions. ``lag`` appears at the board's master
    only, while the LAG exists. ``steering_entries`` counts, by reason, the packets that invalid
    entries of software's tables have dropped; absent while all counts are 0.
    """
    view: dict[str, Any] = {}
    if hca.model.total_vfs:
        enabled = sum(vhca.vf_enabled for vhca in hca.adapter.vhcas.values())
        view["vfs"] = {"total": hca.model.total_vfs, "enabled": enabled}
    if hca.eswitch is not None:
        view["switch"] = {"decides": hca.eswitch.decides, "sfs": _sub_functions(hca)}
    board = hca.adapter.board
    if board.lag is not None and hca.vhca is board.master:
        lag = board.lag
        view["lag"] = {"remap": list(lag.remap), "vports": lag.has_vports}
        view["lag"]["switches"] = lag.of_switches
    memory = hca.steering_memory
    if memory is not None and memory.dropped:
        view["steering_entries"] = dict(memory.dropped)
    return view


def _sub_functions(hca: Hca) -> list[dict[str, Any]]:
    """Return number, state and count of objects of each sub-function.

    Omit those in state INVALID.
    """
    functions = hca.sub_functions.all if hca.sub_functions is not None else []
    return [
        {
            "function_id": one.number,
            "sfnum": one.sw_function_id,
            "state": one.state.name,
            "objects": sum(map(len, one.node.tables)) if one.node is not None else 0,
        }
        for one in functions
        if one.state is not VhcaState.INVALID
    ]

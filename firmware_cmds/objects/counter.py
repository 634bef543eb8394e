"""Counter sets of queue pairs, and the vnic diagnostics that devlink health reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError
from emu.device.objects.domains import QCounter
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.objects import counter as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables


def counter_set(counters: Table[QCounter], number: int) -> QCounter | None:
    """Return the set with the number in a queue's context; None for 0.

    Raises BAD_RES_ERR for a number that is no counter set of the caller.
    """
    return counters.need(number) if number else None


@command(Op.ALLOC_Q_COUNTER)
def alloc_q_counter(
    tables: ObjectTables, cmd: layout.alloc_q_counter_in, out: layout.alloc_q_counter_out
) -> None:
    """Create a counter set; queue pairs name it in qpc.counter_set_id."""
    out.counter_set_id = tables.counters.add(QCounter())


@command(Op.DEALLOC_Q_COUNTER)
def dealloc_q_counter(
    tables: ObjectTables, cmd: layout.dealloc_q_counter_in, out: layout.dealloc_q_counter_out
) -> None:
    """Destroy the set; refused while a queue uses it."""
    tables.counters.remove(cmd.counter_set_id)


@command(Op.QUERY_Q_COUNTER)
def query_q_counter(
    tables: ObjectTables, cmd: layout.query_q_counter_in, out: layout.query_q_counter_out
) -> None:
    """Return the set's values; ``clear`` zeroes them.

    Values are cut to 32 bits. Refuse ``aggregate`` with BAD_PARAM_ERR.
    """
    if cmd.aggregate:
        raise BadParamError("a command can read only one counter set")
    counter = tables.counters.need(cmd.counter_set_id)
    for name, value in counter.values.items():
        setattr(out, name, value & 0xFFFFFFFF)
    if cmd.clear:
        counter.values.clear()


@command(Op.QUERY_VNIC_ENV, of_others=True)
def query_vnic_env(hca: Hca, cmd: layout.query_vnic_env_in, out: layout.query_vnic_env_out) -> None:
    """Return overruns, refused commands, drops (core/diag/reporter_vnic.c, en_stats.c).

    ``invalid_command`` counts the commands that the adapter does not implement. Steering discards,
    drops of a vPort that is down and too small WQEs are reported on Ethernet ports only. Counters
    are not cleared. The adapter's manager may ask about another function.
    """
    env = out.vport_env
    env.comp_eq_overrun = sum(eq.overruns for eq in hca.eqs if not eq.events)
    env.async_eq_overrun = sum(eq.overruns for eq in hca.eqs if eq.events)
    env.cq_overrun = hca.cqes.overruns
    env.invalid_command = hca.counts.unhandled.commands.total()
    if hca.model.port_type is PortType.ETH:
        env.nic_receive_steering_discard = hca.nic_vport.steering_discards
        env.receive_discard_vport_down = hca.nic_vport.received_while_down
        env.transmit_discard_vport_down = hca.nic_vport.sent_while_down
        env.eth_wqe_too_small = hca.nic_vport.wqe_too_small & 0xFFFFFFFF

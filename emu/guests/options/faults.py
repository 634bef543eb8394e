"""Options of a guest's fault plan, and of the files that record what its functions do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from emu.guests.options.declare import option
from emu.guests.options.kinds import Choice, File, Flag, Whole
from emu.guests.options.uses import OF_SERVER, ONE_FILE, OWN_PLANS, Use


@dataclass(frozen=True, kw_only=True)
class FaultPlanOptions:
    """Options in the group Faults and traces.

    ``faults`` is a fault plan for the functions. ``faults_when``, or else the plan, sets its start:
    with the boot (``loading``, the default), or as soon as the guest accepts commands (``loaded``).
    ``record`` is the file that records which faults fired, by default a file in the guest's logs if
    there is a plan.
    """

    GROUP: ClassVar = "Faults and traces"

    trace: Path | None = option(
        None,
        flag="trace",
        kind=File(is_new=True),
        help="Record what the functions do in this file.",
        refused=ONE_FILE,
        tables=OF_SERVER,
        wrong=lambda o: "needs a device" if o.trace and not o.devices else "",
    )
    trace_limit: int | None = option(
        None,
        flag="trace-limit",
        kind=Whole(metavar="MIB", least=1),
        help="End the trace when the file has this size, in MiB.",
        otherwise="1024",
        refused={use: why for use, why in ONE_FILE.items() if use is not Use.PYTEST},
        tables=OF_SERVER,
        is_for_server=True,
    )
    pcap: Path | None = option(
        None,
        flag="pcap",
        kind=File(is_new=True),
        help="Write the packets of the functions' ports to this file or pipe (pcapng); RDMA"
        " messages between functions of one server need --pcap-messages.",
        refused=ONE_FILE,
        tables=OF_SERVER,
        is_for_server=True,
    )
    pcap_messages: bool = option(
        False,
        flag="pcap-messages",
        kind=Flag(),
        help="Send RDMA messages between functions of one server as packets, for --pcap.",
        refused=ONE_FILE,
        tables=OF_SERVER,
        is_for_server=True,
    )
    faults: Path | None = option(
        None,
        flag="faults",
        kind=File(example="plan"),
        help="Inject the faults of this plan; @NAME is one of `guide @faults`.",
        refused=OWN_PLANS,
        tables=OF_SERVER,
        wrong=lambda o: "needs a device" if o.faults and not o.devices else "",
    )
    faults_when: str | None = option(
        None,
        flag="faults-when",
        kind=Choice(among=("loading", "loaded")),
        help="Start of the plan: with the boot (loading), or once the driver is up (loaded).",
        otherwise="as the plan says",
        refused=OWN_PLANS,
        tables=OF_SERVER,
        wrong=lambda o: "needs a plan (faults)" if o.faults_when and not o.faults else "",
    )
    record: Path | None = option(
        None,
        flag="record",
        kind=File(is_new=True),
        help="File for the record of the faults.",
        refused=ONE_FILE,
        tables=OF_SERVER,
    )

"""Attaches a server's functions to the capture file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emu.device.function.function import Function
from emu.device.ports import Clock
from emu.host.truncated_output import complaint
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.ib.local import Wired
from emu.server.net.pcap import blocks
from emu.server.net.pcap.capture import EthernetInterface, SubnetWatcher
from emu.server.net.pcap.faults import CaptureInterface
from emu.server.net.pcap.file import DEFAULT_MIB, PcapFile
from emu.version import version

if TYPE_CHECKING:
    from emu.device.faults.record import Fired

_DROP = "drop"
"""Action of a rule that keeps a packet from the wire (``emu.device.faults.delivery_actions``)."""


@dataclass(frozen=True, slots=True)
class PcapOptions:
    """The user's options for a capture."""

    path: Path
    most_mib: int = DEFAULT_MIB
    messages: bool = False
    """Whether messages between functions of the process become packets for the capture."""


class Capture:
    """The capture of a server's functions."""

    def __init__(
        self,
        options: PcapOptions,
        clock: Clock,
        functions: Sequence[Function],
        cables: Sequence[FunctionPort | None],
        fabric: Wired,
        names: Sequence[str],
    ) -> None:
        """Capture the functions' ports from now on. Raises OSError for the file.

        ``cables`` are the ports of Ethernet functions; ``names`` are the functions', and become
        those of the file's interfaces. An Ethernet port's virtual functions have its interface.
        """
        self._path = options.path
        self._file = PcapFile(options.path, clock, f"mlx5emu {version()}", options.most_mib)
        self._file.on_end = self._detach
        self._cables = [cable for cable in cables if cable is not None]
        self._fabric = fabric
        self._interfaces: list[CaptureInterface] = []
        self._vfs: dict[int, str] = {}
        """Names of the functions with the interface of their physical one, by index."""
        subnet = SubnetWatcher(wants_messages=options.messages)
        ethernets: dict[int, EthernetInterface] = {}
        for index, (function, cable) in enumerate(zip(functions, cables)):
            if function.shares_port:
                self._interfaces.append(ethernets[id(function.adapter)])
                self._vfs[index] = names[index]
                continue
            name, vport = names[index], function.hca.vport
            if cable is not None:
                mac = function.hca.nic_vport.permanent_address
                about = f"{function.model.title}, MAC {mac.hex(':')}"
                number = self._file.interface(blocks.LINKTYPE_ETHERNET, name, about, mac)
                cable.watcher = ethernet = EthernetInterface(self._file, number, name)
                cable.shows_messages = options.messages
                self._interfaces.append(ethernet)
                ethernets[id(function.adapter)] = ethernet
            else:
                guid, lid = vport.guid.to_bytes(8, "big"), function.hca.ib.lid
                about = f"{function.model.title}, LID {lid}"
                number = self._file.interface(blocks.LINKTYPE_ERF, name, about, guid)
                interface = CaptureInterface(self._file, number, name)
                subnet.add(fabric.key_of(function.hca), interface)
                self._interfaces.append(interface)
        fabric.watcher = subnet

    def fault(self, fired: Fired) -> None:
        """Write a fired fault to its function's interface: with its packet, or as an entry.

        Both name a function that shares the interface.
        """
        event = ", ".join(f"{name} {value}" for name, value in fired.event.items())
        text = f"fault {fired.rule}: {fired.action} at {fired.point}" + f" ({event})" * bool(event)
        if fired.without_effect:
            text += f" has no effect: {fired.without_effect}"
        index, is_dropped = fired.function, fired.action == _DROP
        vf = self._vfs.get(index, "")
        self._interfaces[index].fault(text, fired.packet, is_dropped=is_dropped, vf=vf)

    @property
    def complaint(self) -> str:
        """The missing end of the file, if any."""
        return complaint("capture", self._path, self._file.ended_by)

    def _detach(self) -> None:
        """Stop capturing: remove the watchers of all ports and of the fabric.

        The file stays open.
        """
        for cable in self._cables:
            cable.watcher = None
            cable.shows_messages = False
        self._fabric.watcher = None

    def close(self) -> None:
        """Stop capturing, write the queued blocks and close the file."""
        self._detach()
        for interface in self._interfaces:
            interface.close()
        self._file.close()

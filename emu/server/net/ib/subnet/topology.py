"""The file format of a subnet: the output of ibnetdiscover, the input of ibsim.

::

    Switch  36 "leaf0"          # "Leaf 0" base port 0 lid 3 lmc 0
    [1]     "function0"[1]      # "node 1" lid 4 4xEDR
    [36]    "spine0"[1]
    Hca     1 "function0"
    [1]     "leaf0"[1]

A cable is listed at one of its ends or at both. Lines ``vendid=``, ``devid=``, ``sysimgguid=``,
``switchguid=`` and ``caguid=`` describe the following node. LIDs are ignored, because the manager
assigns them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from emu.host.user_error import UserError
from layouts.wire.mads import NodeType

MAX_NODES: Final = 10_000
MAX_CABLES: Final = 50_000
MAX_SWITCH_PORTS: Final = 254
MAX_CA_PORTS: Final = 2
_MAX_LINE: Final = 1024
_FIRST_GUID: Final = 0x0002_C903_00F0_0000
_GUIDS_OF_A_NODE: Final = 256
_LAST_GUID: Final = (1 << 64) - 1

KINDS: Final = {
    "switch": NodeType.SWITCH,
    "hca": NodeType.CHANNEL_ADAPTER,
    "ca": NodeType.CHANNEL_ADAPTER,
}
_WIDTHS: Final = {1: 1, 2: 2, 4: 4, 8: 8, 12: 16}
"""PTYS width by number of lanes."""
_SPEEDS: Final = {"SDR": 1, "DDR": 2, "QDR": 4, "FDR": 16, "EDR": 32, "HDR": 64, "NDR": 128}
"""PTYS speed by name."""
DEFAULT_RATE: Final = (4, 32)
"""4xEDR."""

_HEADER: Final = re.compile(r'(Switch|Hca|Ca)\s+(\d{1,3})\s+"([^"]*)"(.*)', re.IGNORECASE)
_PORT: Final = re.compile(
    r'\[(\d{1,3})\](?:\[ext \d{1,4}\])?(?:\(([0-9a-fA-F]{1,16})\))?\s*"([^"]*)"'
    r"(?:\[(\d{1,3})\])?(?:\[ext \d{1,4}\])?(.*)"
)
_ABOUT: Final = re.compile(r"(vendid|devid|sysimgguid|switchguid|caguid)=(0x[0-9a-fA-F]{1,16})\b.*")
_DESCRIPTION: Final = re.compile(r'#\s*"([^"]*)"')
_RATE: Final = re.compile(r"\b(\d{1,2})x(SDR|DDR|QDR|FDR|EDR|HDR|NDR)\b")


class TopologyError(UserError):
    """A file that describes no valid subnet; the text gives line and reason."""


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of the file."""

    name: str
    kind: NodeType
    num_ports: int
    guid: int
    """GUID; 0 if the file has none."""
    system_guid: int
    device_id: int
    vendor_id: int
    description: str
    line: int


@dataclass(frozen=True, slots=True)
class SubnetCable:
    """A cable by numbers of nodes and their ports; width and speed are PTYS codes."""

    ends: tuple[tuple[int, int], tuple[int, int]]
    width: int
    speed: int


@dataclass(frozen=True, slots=True)
class SubnetTopology:
    """Nodes in the file's order, and the cables between them."""

    nodes: tuple[NodeLine, ...]
    cables: tuple[SubnetCable, ...]
    source: str = "the file"
    """Name of the source in error messages."""


@dataclass(slots=True)
class _Plug:
    """A line about a port: the other end of its cable."""

    line: int
    node: int
    port: int
    peer: str
    peer_port: int
    rate: tuple[int, int] | None


@dataclass(slots=True)
class _Reader:
    """State of the parser."""

    nodes: list[NodeLine] = field(default_factory=list)
    plugs: list[_Plug] = field(default_factory=list)
    about: dict[str, int] = field(default_factory=dict)
    """Identifiers for the following node."""

    def take(self, number: int, line: str) -> str:
        """Parse a line; return the reason if it is wrong, else an empty text.

        Node, port and identifier are added to the reader's state.
        """
        if match := _ABOUT.fullmatch(line):
            self.about[match[1]] = int(match[2], 16)
            return ""
        if match := _HEADER.fullmatch(line):
            return self._take_node(number, match)
        if match := _PORT.fullmatch(line):
            return self._take_port(number, match)
        return "neither a node, a port, nor an identifier of the following node"

    def _take_node(self, number: int, match: re.Match[str]) -> str:
        """Add a node; return why it is wrong, else an empty text.

        Wrong are an empty or unprintable name, a number of ports out of range, and more than
        MAX_NODES.
        """
        kind, ports, name = KINDS[match[1].lower()], int(match[2]), match[3]
        limit = MAX_SWITCH_PORTS if kind is NodeType.SWITCH else MAX_CA_PORTS
        if not name or not name.isprintable():
            return "a node needs a printable name"
        if not 1 <= ports <= limit:
            return f"{match[1]} has 1 to {limit} ports"
        if len(self.nodes) >= MAX_NODES:
            return f"more than {MAX_NODES} nodes"
        described = _DESCRIPTION.search(match[4])
        about, self.about = self.about, {}
        guid = about.get("switchguid" if kind is NodeType.SWITCH else "caguid", 0)
        self.nodes.append(
            NodeLine(
                name, kind, ports, guid, about.get("sysimgguid", 0), about.get("devid", 0) & 0xFFFF,
                about.get("vendid", 0) & 0xFFFFFF, described[1] if described else name, number,
            )
        )  # fmt: skip
        return ""

    def _take_port(self, number: int, match: re.Match[str]) -> str:
        """Add a port's cable; return why it is wrong, else an empty text.

        Wrong are a port before any node, one that its node lacks, and too many cables. An unknown
        rate counts as none.
        """
        if not self.nodes:
            return "a port before the first node"
        port, peer_port = int(match[1]), int(match[4] or 1)
        if not 1 <= port <= self.nodes[-1].num_ports:
            return f"{self.nodes[-1].name!r} has no port {port}"
        if len(self.plugs) >= 2 * MAX_CABLES:
            return f"more than {MAX_CABLES} cables"
        rate = _RATE.search(match[5])
        code = None
        if rate and int(rate[1]) in _WIDTHS:
            code = _WIDTHS[int(rate[1])], _SPEEDS[rate[2]]
        self.plugs.append(_Plug(number, len(self.nodes) - 1, port, match[3], peer_port, code))
        return ""


def parse(text: str) -> SubnetTopology:
    """Return the subnet that a file describes.

    Raises TopologyError, with the line, for bad syntax, unknown or duplicate nodes, duplicate
    GUIDs, and a port with two cables.
    """
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _MAX_LINE:
            raise TopologyError(f"line {number}: longer than {_MAX_LINE} characters")
        line = line.strip()
        if line and not line.startswith("#") and (wrong := reader.take(number, line)):
            raise TopologyError(f"line {number}: {wrong}")
    nodes = tuple(_with_guids(reader.nodes))
    return SubnetTopology(nodes, tuple(_cables(nodes, reader.plugs)))


def _with_guids(nodes: list[NodeLine]) -> Iterator[NodeLine]:
    """Yield the nodes, with generated GUIDs where the file has none.

    Raises TopologyError for a GUID of two nodes, or too high for its ports' GUIDs.
    """
    owners: dict[int, str] = {}
    for node in nodes:
        if node.guid and (other := owners.setdefault(node.guid, node.name)) != node.name:
            raise TopologyError(f"line {node.line}: {other!r} has the same GUID")
        if node.guid > _LAST_GUID - _GUIDS_OF_A_NODE:
            raise TopologyError(f"line {node.line}: the GUID is too high for ports' GUIDs")
    free = (guid for guid in itertools.count(_FIRST_GUID, _GUIDS_OF_A_NODE) if guid not in owners)
    for node in nodes:
        guid = node.guid or next(free)
        yield replace(node, guid=guid, system_guid=node.system_guid or guid)


def _cables(nodes: tuple[NodeLine, ...], plugs: list[_Plug]) -> Iterator[SubnetCable]:
    """Yield each cable once, with 4xEDR by default.

    Raises TopologyError for a port with two cables or looped to itself, an unknown node or port,
    and a duplicate name.
    """
    numbers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        if numbers.setdefault(node.name, number) != number:
            raise TopologyError(f"line {node.line}: a second node {node.name!r}")
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for plug in plugs:
        peer = numbers.get(plug.peer)
        if peer is None:
            raise TopologyError(f"line {plug.line}: no node {plug.peer!r}")
        if not 1 <= plug.peer_port <= nodes[peer].num_ports:
            raise TopologyError(f"line {plug.line}: {plug.peer!r} has no port {plug.peer_port}")
        here, there = (plug.node, plug.port), (peer, plug.peer_port)
        if here == there:
            raise TopologyError(f"line {plug.line}: a cable from a port to itself")
        known = ends.get(here) == there
        if not known and (here in ends or there in ends):
            raise TopologyError(f"line {plug.line}: one of the two ports has another cable")
        ends[here], ends[there] = there, here
        if not known:
            yield SubnetCable((here, there), *(plug.rate or DEFAULT_RATE))

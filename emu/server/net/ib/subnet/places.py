"""Assignment of guest functions to nodes of a topology file."""

from __future__ import annotations

from collections.abc import Sequence

from emu.server.net.ib.subnet.topology import NodeLine, SubnetTopology, TopologyError
from layouts.wire.mads import NodeType

FUNCTION = "function"
"""Prefix of a node's name: the channel adapter ``function0`` is function 0, and so on."""


def places_of(topology: SubnetTopology, guids: Sequence[int]) -> dict[int, int]:
    """Return the number of each function's node, by the function's GUID.

    The adapter ``function0`` is for the first GUID, and so on; other functions take the adapters
    left, in the file's order. Raises TopologyError for too few adapters or a duplicate GUID.
    """
    adapters = {
        number: node
        for number, node in enumerate(topology.nodes)
        if node.kind is NodeType.CHANNEL_ADAPTER
    }
    named = {node.name: number for number, node in adapters.items()}
    free = (number for number, node in adapters.items() if not _is_named(node, len(guids)))
    numbers: dict[int, int] = {}
    for index, guid in enumerate(guids):
        number = named.get(f"{FUNCTION}{index}")
        if number is None:
            number = next(free, None)
        if number is None:
            raise TopologyError(
                f"{topology.source}: {len(guids)} functions, but {len(adapters)} channel adapters"
            )
        numbers[guid] = number
    _check_guids(topology, numbers)
    return numbers


def _is_named(node: NodeLine, functions: int) -> bool:
    return any(node.name == f"{FUNCTION}{index}" for index in range(functions))


def _check_guids(topology: SubnetTopology, numbers: dict[int, int]) -> None:
    """Raise TopologyError if another node has the GUID of a function.

    A function's GUID overrides that of its own node.
    """
    others = {node.guid for at, node in enumerate(topology.nodes) if at not in numbers.values()}
    for guid in numbers:
        if guid in others:
            raise TopologyError(
                f"{topology.source}: GUID {guid:#x} is a function's and another node's"
            )

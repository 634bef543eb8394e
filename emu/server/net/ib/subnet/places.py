"""Assignment of guest functions to nodes of a topology file."""

from __future__ import annotations

from collections.abc import Sequence

from emu.server.net.ib.subnet.topology import NodeLine, SubnetTopology, TopologyError
from layouts.wire.mads import NodeType

FUNCTION = "function"
"""Prefix of a node's name: the channel adapter ``function0`` is function 0, and so on."""


def places_of(topology: SubnetTopology, guids: Sequence[int]) -> dict[int, int]:
    """Return the node of each function, by its GUID.

    Functions without a channel adapter of their name take the others in the file's order. Raises
    TopologyError when the file has too few.
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
    """Check that no other node has the GUID of a function, which overrides its node's GUID."""
    others = {node.guid for at, node in enumerate(topology.nodes) if at not in numbers.values()}
    for guid in numbers:
        if guid in others:
            raise TopologyError(
                f"{topology.source}: GUID {guid:#x} is a function's and another node's"
            )

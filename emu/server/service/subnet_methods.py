"""The control socket's methods for a simulated subnet: show it, cut and repair its cables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from emu.server.control.server import ControlRequestError, Streamed
from emu.server.net.ib.subnet.fabric import SubnetFabric
from emu.server.net.ib.subnet.nodes import Cables, NoCableError, SimNode
from layouts.enums.vport import PortState


def show(subnet: SubnetFabric) -> Streamed:
    """Yield the JSON text of every node, with name, kind, LID and cabled ports.

    One node at a step.
    """
    yield b'{"nodes":['
    for number, node in enumerate(subnet.cables.nodes):
        yield b"," * bool(number) + json.dumps(_about(subnet.cables, node)).encode()
    yield b"]}"


def _about(cables: Cables, node: SimNode) -> dict[str, Any]:
    """Return a node's name, kind and LID, and its ports with a cable, also a cut one."""
    ports = []
    for number, peer in enumerate(node.peers):
        if peer is None:
            continue
        ports.append(
            {
                "port": number,
                "state": PortState(node.ports[number].info.port_state).name,
                "peer": cables.nodes[peer[0]].line.name,
                "peer_port": peer[1],
                "is_cut": number in node.cut,
            }
        )
    kind = "switch" if node.is_switch else "adapter"
    is_function = node.function is not None
    lid = (node.ports[0] if node.is_switch else node.ports[1]).info.lid
    name = node.line.name
    return {"name": name, "kind": kind, "is_function": is_function, "lid": lid, "ports": ports}


def cut(subnet: SubnetFabric, params: Mapping[str, Any]) -> None:
    """Cut (``is_cut`` true) or repair the cable at ``port`` of ``node``, at both ends.

    Raises ControlRequestError for parameters of wrong types, an unknown node, or a port without a
    cable.
    """
    name, port, is_cut = params.get("node"), params.get("port"), params.get("is_cut")
    if type(port) is not int or not isinstance(name, str) or not isinstance(is_cut, bool):
        raise ControlRequestError("node must be a name, port a number, is_cut true or false")
    try:
        subnet.cables.cut(*subnet.cables.place(name, port), is_cut=is_cut)
    except NoCableError as error:
        raise ControlRequestError(str(error)) from None

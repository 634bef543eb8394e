"""Serialized ports of a fabric's processes: the bodies of PORT and PORTS."""

from __future__ import annotations

from struct import Struct

from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.port import PKEY_TABLE_ENTRIES, SM_LID
from emu.server.net.fabric.errors import FabricProtocolError
from layouts.enums.vport import PhysState, PortState

MAX_PORTS = 1024
"""Maximum number of functions in a fabric."""
_PORT = Struct(f">HQQHBHBBIHB{NODE_DESCRIPTION_BYTES}sB")
_PKEY = Struct(">H")
_MTUS = (256, 512, 1024, 2048, 4096)
_MAX_TIMEOUT = 31
MAX_PORT_BYTES = _PORT.size + PKEY_TABLE_ENTRIES * _PKEY.size


def port(end_port: EndPort) -> bytes:
    """Return the body of PORT, or a segment of the body of PORTS."""
    return _PORT.pack(
        end_port.lid,
        end_port.port_guid,
        end_port.node_guid,
        end_port.mtu,
        end_port.width,
        end_port.speed,
        end_port.state,
        end_port.phys_state,
        end_port.cap_mask,
        end_port.device_id,
        end_port.subnet_timeout,
        end_port.node_description,
        len(end_port.pkeys),
    ) + b"".join(map(_PKEY.pack, end_port.pkeys))


def read_ports(body: memoryview) -> list[EndPort]:
    """Return all ports in the body of PORTS, up to MAX_PORTS.

    Raises FabricProtocolError for more ports, a truncated body, or a port with invalid values.
    """
    ports: list[EndPort] = []
    at = 0
    while at < len(body):
        if len(ports) >= MAX_PORTS:
            raise FabricProtocolError(f"more than {MAX_PORTS} ports")
        one, at = _read_port(body, at)
        ports.append(one)
    return ports


def read_port(body: memoryview) -> EndPort:
    """Return the port in the body of PORT.

    Raises FabricProtocolError for a truncated body, bytes behind the port, or invalid values.
    """
    one, end = _read_port(body, 0)
    if end != len(body):
        raise FabricProtocolError("PORT has bytes behind the port")
    return one


def _read_port(body: memoryview, at: int) -> tuple[EndPort, int]:
    """Return the port at offset ``at``, and the offset behind the port.

    Raises FabricProtocolError for a truncated port, or an invalid LID, GUID, MTU, timeout, P_Key
    count or state.
    """
    if len(body) - at < _PORT.size:
        raise FabricProtocolError("a port is cut off")
    (
        lid, guid, node_guid, mtu, width, speed, state, phys_state, cap_mask, device_id,
        subnet_timeout, description, pkey_count,
    ) = _PORT.unpack_from(body, at)  # fmt: skip
    at += _PORT.size
    end = at + pkey_count * _PKEY.size
    if pkey_count > PKEY_TABLE_ENTRIES or end > len(body):
        raise FabricProtocolError(f"a port with {pkey_count} P_Keys is cut off")
    if not 0 < lid < SM_LID or not guid or mtu not in _MTUS or subnet_timeout > _MAX_TIMEOUT:
        raise FabricProtocolError(f"a port with LID {lid:#x}, GUID {guid:#x}, MTU {mtu}")
    try:
        end_port = EndPort(
            lid=lid,
            port_guid=guid,
            node_guid=node_guid,
            pkeys=tuple(pkey for (pkey,) in _PKEY.iter_unpack(body[at:end])),
            node_description=description,
            mtu=mtu,
            width=width,
            speed=speed,
            state=PortState(state),
            phys_state=PhysState(phys_state),
            cap_mask=cap_mask,
            device_id=device_id,
            subnet_timeout=subnet_timeout,
        )
    except ValueError as error:
        raise FabricProtocolError(f"LID {lid:#x}: {error}") from None
    return end_port, end

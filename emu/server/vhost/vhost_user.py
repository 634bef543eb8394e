"""The transport for User-Mode Linux: a function on a vhost-user socket, as PCI over virtio.

The kernel is the front end: arch/um/drivers/virtio_uml.c connects for each
``virtio_uml.device=SOCKET:ID``, and arch/um/drivers/virt-pci.c makes a PCI device of it. The
kernel's memory is a file without seals, so the server survives lost pages instead of preventing
them (:mod:`emu.server.vfio.sigbus`).
"""

from __future__ import annotations

import os
import select
import socket

from emu.device.ports import PciFunction
from emu.host.listening import OWNER_ONLY
from emu.server.vfio.server import VfioServer
from emu.server.vhost.msix import MsixTable
from emu.server.vhost.pcidev import PciDevice
from emu.server.vhost.session import VhostSession


class VhostUserServer(VfioServer[VhostSession]):
    """A function on a vhost-user socket; see :class:`emu.server.vfio.base.Transport`."""

    def __init__(self, path: str | os.PathLike[str], *, socket_mode: int = OWNER_ONLY) -> None:
        self._vectors = MsixTable()
        super().__init__(path, self._vectors, trust_unsealed=True, socket_mode=socket_mode)

    @property
    def events(self) -> int:
        """The events to poll for; 0 when messages are pending."""
        return 0 if self._client is not None and self._client.behind else select.POLLIN

    def _open(self, function: PciFunction) -> None:
        self._vectors.serve(function)
        self._listener.open()

    def _meet(self, sock: socket.socket) -> VhostSession:
        device = PciDevice(self._name, self.function, self._vectors)
        return VhostSession(sock, self.memory, self._vectors, device)

    def _handle(self, client: VhostSession, timeout_ns: int | None) -> None:
        """Receive once and handle the messages of one poll, or go on with those received before.

        Raises EOFError, OSError or VhostProtocolError for the loss of the front end.
        """
        if client.behind:
            client.go_on()
        elif client.receive(timeout_ns):
            client.dispatch()

"""A vfu_ctx_t of libvfio-user: a function in the library, and the library's callbacks.

The guest's memory is mapped a second time, under the rules of
:class:`emu.server.vfio.memory.DmaMap`: DMA_UNMAP invalidates views of the library's own mappings,
even those in use.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any, Final

from emu.device.ports import PciFunction
from emu.server.vfio import libvfio_abi as abi
from emu.server.vfio.base import TransportError
from emu.server.vfio.interrupts import MsixVectors
from emu.server.vfio.mappings import find_backing
from emu.server.vfio.memory import READ, WRITE, DmaMap
from emu.server.vfio.protocol import (
    MAX_DMA_MAPS,
    Irq,
    RegionIndex,
    VfioProtocolError,
    VfioRequestError,
)
from emu.server.vfio.requests import region_sizes
from emu.server.vfio.waits.alarm import ALARM

logger = logging.getLogger(__name__)

_MAX_REPLY: Final = 1 << 16


class LibraryVectors(MsixVectors):
    """MSI-X vectors whose eventfds the library keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.context: Context | None = None
        self._has_blocked = False

    def clear(self) -> None:
        """Drop the latched vectors, and try the next client's eventfds again."""
        super().clear()
        self._has_blocked = False

    def _send(self, vector: int) -> bool:
        """Send ``vector`` by the library; return False when the client has not set it up.

        False also without a context, and after a write has blocked until the alarm. The blocked
        write itself returns True, calls ``on_blocked`` and ends sending until the client changes.
        """
        if self.context is None or self._has_blocked:
            return False
        ALARM.set()
        try:
            return self.context.trigger(vector)
        except InterruptedError:
            self._has_blocked = True
            self.on_blocked()
            return True


class Context:
    """A realized vfu_ctx_t that listens on a private path, from construction to :meth:`destroy`."""

    def __init__(
        self,
        library: ctypes.CDLL,
        name: str,
        function: PciFunction,
        memory: DmaMap,
        interrupts: LibraryVectors,
    ) -> None:
        """Create the context. Raises :class:`TransportError` when the library refuses."""
        self._library = library
        self._name = name
        self._function = function
        self._memory = memory
        self._interrupts = interrupts
        self._callbacks: list[object] = []  # kept alive for the library's pointers
        self._serving = False
        self._error_in_callback: Exception | None = None
        """Exception of a callback that :meth:`run` raises, because ctypes cannot pass it on."""
        self._directory = tempfile.mkdtemp(prefix="mlx5emu-")
        self._path = Path(self._directory, "socket")
        self._context = library.vfu_create_ctx(
            abi.VFU_TRANS_SOCK,
            os.fsencode(self._path),
            abi.LIBVFIO_USER_FLAG_ATTACH_NB,
            None,
            abi.VFU_DEV_TYPE_PCI,
        )
        try:
            if self._context is None:
                raise self._error("vfu_create_ctx")
            self._set_up()
        except TransportError:
            self.destroy()
            raise
        interrupts.context = self

    def attach(self, greeting: bytes) -> tuple[bytes, list[int], bool]:
        """Let the library answer a client's VERSION, sent on a private connection.

        Return the reply, its descriptors (at most one, for the caller to send and close), and
        whether the library agreed to the version. The library stays on the private connection until
        :meth:`adopt`.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stand_in:
            stand_in.connect(os.fspath(self._path))
            stand_in.sendall(greeting)
            agreed = self._library.vfu_attach_ctx(self._context) == 0
            reply, fds, _, _ = socket.recv_fds(stand_in, _MAX_REPLY, 1, socket.MSG_DONTWAIT)
        return reply, fds, agreed

    def adopt(self, client: socket.socket) -> None:
        """Make ``client`` the connection that the library serves; both keep their descriptors."""
        os.dup2(client.fileno(), self._library.vfu_get_poll_fd(self._context), inheritable=False)
        self._serving = True

    def run(self) -> None:
        """Let the library read and handle one message.

        The call blocks until the message is complete. Raises EOFError when the client has left,
        :class:`VfioProtocolError` for another error of the library, and any exception of a callback
        other than VfioRequestError.
        """
        result = self._library.vfu_run_ctx(self._context)
        if self._error_in_callback is not None:
            error, self._error_in_callback = self._error_in_callback, None
            raise error
        if result >= 0:
            return
        if ctypes.get_errno() == errno.ENOTCONN:
            self._serving = False
            raise EOFError
        raise VfioProtocolError(f"vfu_run_ctx: {os.strerror(ctypes.get_errno())}")

    def hang_up(self) -> None:
        """Make the library drop its client and unmap the client's ranges.

        Do nothing without a client. Replaces the client's connection by a closed one, which the
        library reads. The client's own socket stays open. EOFError and VfioProtocolError are not
        raised; an exception of a callback is.
        """
        if not self._serving:
            return
        ended, other = socket.socketpair()
        other.close()
        with ended:
            self.adopt(ended)
        try:
            self.run()
        except (EOFError, VfioProtocolError) as error:
            logger.debug("%s: the library has dropped the client %s", self._name, error)

    def trigger(self, vector: int) -> bool:
        """Send a vector by the library; return True if sent, or if the eventfd's counter is full.

        Return False for any other failure, mostly a vector without an eventfd of the client. Raises
        InterruptedError when the write to the eventfd has blocked until the alarm.
        """
        if self._library.vfu_irq_trigger(self._context, vector) == 0:
            return True
        code = ctypes.get_errno()
        if code == errno.EINTR:
            raise InterruptedError
        return code == errno.EAGAIN  # the counter is full: already signalled

    def destroy(self) -> None:
        """Free the context, remove its private directory and detach the vectors.

        May be called twice.
        """
        self._interrupts.context = None
        if self._context is not None:
            self._library.vfu_destroy_ctx(self._context)
            self._context = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def _set_up(self) -> None:
        """Declare regions, interrupts, memory and reset to the library, and realize the context.

        Raises :class:`TransportError` with the name of the library function that failed.
        """
        level = abi.LOG_INFO if logger.isEnabledFor(logging.DEBUG) else abi.LOG_ERR
        self._do("vfu_setup_log", self._keep(abi.LogFn(self._log)), level)
        self._do("vfu_pci_init", abi.VFU_PCI_TYPE_EXPRESS, abi.PCI_HEADER_TYPE_NORMAL, 0)
        for region, size in enumerate(region_sizes(self._function)):
            if size:
                kind = abi.VFU_REGION_FLAG_MEM
                if region == RegionIndex.CONFIG:
                    kind = abi.VFU_REGION_FLAG_ALWAYS_CB
                access = self._keep(abi.RegionAccessFn(self._access(region)))
                flags = abi.VFU_REGION_FLAG_RW | kind
                self._do("vfu_setup_region", region, size, access, flags, None, 0, -1, 0)
        self._do("vfu_setup_device_nr_irqs", Irq.MSIX, self._function.msix_vectors)
        register = self._keep(abi.DmaFn(self._dma_register))
        unregister = self._keep(abi.DmaFn(self._dma_unregister))
        self._do("vfu_setup_device_dma", MAX_DMA_MAPS, register, unregister)
        self._do("vfu_setup_device_reset_cb", self._keep(abi.ResetFn(self._reset)))
        self._do("vfu_realize_ctx")

    def _do(self, function: str, *arguments: object) -> None:
        if getattr(self._library, function)(self._context, *arguments) < 0:
            raise self._error(function)

    def _error(self, function: str) -> TransportError:
        return TransportError(f"{self._name}: {function}: {os.strerror(ctypes.get_errno())}")

    def _keep(self, callback: object) -> Any:
        self._callbacks.append(callback)
        return callback

    def _failed(self, error: Exception) -> int:
        """Report a callback's exception to the library by errno; return -1, the callback's result.

        A VfioRequestError is logged, and its errno becomes the client's error reply. :meth:`run`
        raises any other exception, whose errno is EIO.
        """
        if isinstance(error, VfioRequestError):
            logger.warning("%s: %s", self._name, error)
            ctypes.set_errno(error.errno)
        else:
            self._error_in_callback = error
            ctypes.set_errno(errno.EIO)
        return -1

    def _log(self, _context: int, level: int, message: bytes) -> None:
        severity = logging.WARNING if level <= abi.LOG_ERR else logging.DEBUG
        logger.log(severity, "%s: libvfio-user: %s", self._name, message.decode(errors="replace"))

    def _access(self, region: int) -> Any:
        """Return the library's callback for reads and writes of a region.

        The callback returns the count, or -1 as :meth:`_failed` when the function raises. The
        library has checked offset and count.
        """
        function = self._function

        def access(_context: int, buffer: int, count: int, offset: int, is_write: bool) -> int:
            """Read or write ``count`` bytes of the region.

            Return ``count``, or -1 with errno set.
            """
            try:
                if not is_write:
                    data = _read(function, region, offset, count)
                    ctypes.memmove(buffer, data, count)
                elif region == RegionIndex.CONFIG:
                    function.config_write(offset, ctypes.string_at(buffer, count))
                else:
                    function.bar_write(region, offset, ctypes.string_at(buffer, count))
            except Exception as error:
                return self._failed(error)
            return count

        return access

    def _dma_register(self, _context: int, pointer: Any) -> None:
        """Map in our :class:`DmaMap` a range that the library has mapped for the client.

        A range whose file is not safe (``emu.server.vfio.backing``) is logged and stays unmapped;
        the client gets no error. A range whose file is not found, or without one, is granted but
        inaccessible.
        """
        info = pointer.contents
        iova, size = info.iova.iov_base or 0, info.iova.iov_len
        access = READ * bool(info.prot & abi.PROT_READ) | WRITE * bool(info.prot & abi.PROT_WRITE)
        try:
            backing = find_backing(info.vaddr) if info.vaddr else None
            if info.vaddr and backing is None:
                logger.warning("%s: no file found behind %#x+%#x", self._name, iova, size)
            fd, offset = backing or (None, 0)
            self._memory.map(iova, size, offset, access, fd)
        except VfioRequestError as error:
            logger.warning("%s: %#x+%#x stays unmapped: %s", self._name, iova, size, error)
        except Exception as error:
            self._failed(error)

    def _dma_unregister(self, _context: int, pointer: Any) -> None:
        """Unmap a range that the library unmaps; a refused DMA_UNMAP is only logged."""
        info = pointer.contents
        try:
            self._memory.unmap(info.iova.iov_base or 0, info.iova.iov_len)
        except VfioRequestError as error:
            logger.warning("%s: DMA_UNMAP: %s", self._name, error)
        except Exception as error:
            self._failed(error)

    def _reset(self, _context: int, kind: int) -> int:
        """Handle DEVICE_RESET: clear latched vectors and reset the function.

        Return 0, or -1 if that fails. Does nothing for VFU_RESET_LOST_CONN: then the transport
        resets the function after its clean-up.
        """
        if kind != abi.VFU_RESET_LOST_CONN:
            self._interrupts.clear_pending()
            try:
                self._function.reset()
            except Exception as error:
                return self._failed(error)
        return 0


def _read(function: PciFunction, region: int, offset: int, count: int) -> bytes:
    """Return ``count`` bytes of a region or of configuration space.

    Raises VfioRequestError with EIO when the function returns another number of bytes.
    """
    if region == RegionIndex.CONFIG:
        data = function.config_read(offset, count)
    else:
        data = function.bar_read(region, offset, count)
    if len(data) != count:
        raise VfioRequestError(errno.EIO, f"the function read {len(data)} bytes of {count}")
    return data

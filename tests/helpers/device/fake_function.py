"""A PCI function that does nothing but remember."""

from __future__ import annotations

from emu.device.ports import Buffer


class FakeFunction:
    """BARs and configuration space of plain bytes; every access and reset is recorded.

    ``views`` is what it keeps of guest memory until it is told to forget.
    ``crash`` makes the next access raise, ``short`` makes reads return one byte less, ``work`` is
    how often ``poll`` says that there is more to do, ``on_poll`` is what else it does.
    """

    def __init__(
        self,
        bar_sizes: tuple[int, int, int, int, int, int] = (1 << 16, 0, 4096, 0, 0, 0),
        msix_vectors: int = 32,
    ) -> None:
        self.bar_sizes = bar_sizes
        self.msix_vectors = msix_vectors
        self.bars = [bytearray(size) for size in bar_sizes]
        self.config = bytearray(4096)
        self.accesses: list[tuple[object, ...]] = []
        self.resets = 0
        self.views: list[memoryview] = []
        self.on_work = lambda: None
        self.on_poll = lambda: None
        self.polls = 0
        self.work = 0
        self.crash = False
        self.short = False
        self.is_round_used = False

    def config_read(self, offset: int, length: int) -> bytes:
        self._note("config_read", offset, length)
        return bytes(self.config[offset : offset + length])

    def config_write(self, offset: int, data: Buffer) -> None:
        self._note("config_write", offset, bytes(data))
        self.config[offset : offset + len(data)] = data

    def bar_read(self, bar: int, offset: int, length: int) -> bytes:
        self._note("bar_read", bar, offset, length)
        return bytes(self.bars[bar][offset : offset + length - self.short])

    def bar_write(self, bar: int, offset: int, data: Buffer) -> None:
        self._note("bar_write", bar, offset, bytes(data))
        self.bars[bar][offset : offset + len(data)] = data

    def reset(self) -> None:
        self.resets += 1

    def forget_views(self) -> None:
        self.views.clear()

    def poll(self) -> bool:
        self.polls += 1
        self.on_poll()
        self.work -= self.work > 0
        return self.work > 0

    def _note(self, *access: object) -> None:
        if self.crash:
            self.crash = False
            raise RuntimeError("the function has a bug")
        self.accesses.append(access)

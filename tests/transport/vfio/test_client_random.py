"""A client that does anything in any order: the server's map is what was agreed to, and no more.

The model is a list of the ranges that were granted. Whatever is refused has changed nothing; what
a client leaves behind is given back.
"""

import os
from pathlib import Path

import pytest
from helpers.device.fake_function import FakeFunction
from helpers.random.examples import examples
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from emu.device.ports import DmaError
from emu.driver.transport.vfio_client import VfioClient, VfioRefusedError
from emu.server.vfio import backing
from emu.server.vfio.kinds import make_transport
from emu.server.vfio.protocol import HEADER, IrqSetFlag

pytestmark = pytest.mark.hostile

PAGE = 0x1000
PAGES = st.integers(0, 7)
FILES = st.integers(0, 2)
COUNTS = st.integers(0, 4)
MAX_FILES = 4
VECTORS = 4
BITS = st.sampled_from([0, 1, 2, 4, 0x20, 0x21, 0x22, 0x24, 0x28, 0x80000000])


def mappings():
    """Mappings of the clients' files in this process, and descriptors of them."""
    maps = Path("/proc/self/maps").read_text().count("memfd:client-random")
    fds = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return maps, sum("client-random" in os.readlink(fd) for fd in fds if os.path.lexists(fd))


class AnyClient(RuleBasedStateMachine):
    """One server, clients one after the other."""

    directory = None

    def __init__(self):
        super().__init__()
        self.function = FakeFunction(msix_vectors=VECTORS)
        self.server = make_transport("vfio-user", self.directory / "socket")
        self.server.listen(self.function)
        self.files = [os.memfd_create("client-random", os.MFD_ALLOW_SEALING) for _ in range(3)]
        self.sizes = [2, 2, 1]
        for fd, size in zip(self.files, self.sizes, strict=True):
            os.ftruncate(fd, size * PAGE)
        self.before = mappings()
        self.views = []
        self.client, self.granted = None, {}
        self.connect()

    def step(self):
        if self.server.connected:
            self.server.serve(0)
        else:
            self.server.accept()

    def connect(self):
        self.client = VfioClient(self.directory / "socket", self.step)
        self.client.negotiate()
        self.granted = {}

    def try_(self, call, *args, **kwargs):
        """Whether the server has done it."""
        try:
            call(*args, **kwargs)
        except VfioRefusedError:
            return False
        return True

    @rule(file=FILES, start=PAGES, count=COUNTS, offset=PAGES, flags=st.sampled_from([0, 1, 3, 7]))
    def grant(self, file, start, count, offset, flags):
        wanted = range(start, start + count)
        arguments = {"fd": self.files[file], "offset": offset * PAGE, "flags": flags}
        done = self.try_(self.client.dma_map, start * PAGE, count * PAGE, **arguments)
        free = not any(page in taken for page in wanted for taken in self.granted)
        may = flags & 3 and count and free and offset + count <= self.sizes[file]
        assert done <= bool(may)
        if done:
            self.granted[wanted] = file, offset, flags
        else:  # only that too many files are mapped is a reason that this model does not know
            assert not may or mappings()[0] - self.before[0] == MAX_FILES

    @rule(data=st.data(), grown=st.booleans())
    def grant_well(self, data, grown):
        """One page that is free, of a file that has some, or has just got one more."""
        free = [page for page in range(8) if not any(page in taken for taken in self.granted)]
        files = [file for file, size in enumerate(self.sizes) if size]
        if not free:
            return
        page, file = data.draw(st.sampled_from(free)), data.draw(st.sampled_from(files))
        if grown:
            self.grow(file)
        offset = self.sizes[file] - 1 if grown else data.draw(st.integers(0, self.sizes[file] - 1))
        self.grant(file, page, 1, offset, data.draw(st.sampled_from([1, 3])))

    @rule(data=st.data())
    def take_one_back(self, data):
        if self.granted:
            taken = data.draw(st.sampled_from(sorted(self.granted, key=min)))
            self.take_back(taken.start, len(taken))

    @rule(start=PAGES, count=COUNTS)
    def take_back(self, start, count):
        span = range(start, start + count)
        whole = [taken for taken in self.granted if set(taken) <= set(span)]
        cut = any(set(taken) & set(span) and taken not in whole for taken in self.granted)
        done = self.try_(self.client.dma_unmap, start * PAGE, count * PAGE)
        assert done == (bool(count) and not cut)
        if done:
            for taken in whole:
                del self.granted[taken]

    @precondition(lambda self: len(self.granted) > 3)
    @rule()
    def take_back_everything(self):
        self.client.dma_unmap_all()
        self.granted = {}

    def grow(self, file):
        if self.sizes[file] < 8:
            self.sizes[file] += 1
            os.ftruncate(self.files[file], self.sizes[file] * PAGE)

    @rule(file=FILES)
    def shrink(self, file):
        """The server has sealed what it has mapped."""
        if any(of == file for of, _, _ in self.granted.values()):
            with pytest.raises(PermissionError):
                os.ftruncate(self.files[file], 0)

    @rule(page=PAGES, kept=st.booleans())
    def view(self, page, kept):
        """What the function keeps it forgets when asked; work under way does not."""
        try:
            view = self.server.memory.view(page * PAGE, 4, writable=False)
        except DmaError:
            return
        if kept:
            self.function.views.append(view)
        else:
            self.views.append(view)

    @rule()
    def work_ends(self):
        self.views.clear()

    @rule(flags=BITS, more=BITS, start=COUNTS, count=COUNTS, fds=COUNTS, data=st.binary(max_size=3))
    def interrupts(self, flags, more, start, count, fds, data):
        eventfds = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(fds)]
        flags |= more
        done = self.try_(
            self.client.set_irqs, flags, start, count, data=data, fds=eventfds
        )  # fmt: skip
        if done and flags == IrqSetFlag.DATA_EVENTFD | IrqSetFlag.ACTION_TRIGGER and fds:
            for number, eventfd in enumerate(eventfds):
                self.server.interrupts.trigger(start + number)
                assert os.eventfd_read(eventfd) >= 1
        for eventfd in eventfds:
            os.close(eventfd)

    @rule()
    def reset(self):
        self.client.reset()

    @precondition(lambda self: len(self.granted) > 2)
    @rule(data=st.binary(max_size=40), politely=st.booleans())
    def leave(self, data, politely):
        """Perhaps in the middle of something; the next client finds nothing of this one's."""
        self.views.clear()
        if not politely:
            self.client.send_raw(data or b"x", [self.files[0]])
        self.client.close()
        for _ in range(20):
            if self.server.connected:
                self.step()
        assert not self.server.connected
        assert len(self.server.memory) == 0
        assert mappings() == self.before
        self.connect()

    @rule(payload=st.binary(max_size=48), cmd=st.integers(0, 20), fds=COUNTS)
    def anything(self, payload, cmd, fds):
        """Commands with wrong payloads; sizes of none are those of a map or an unmap."""
        if len(payload) in (24, 32):
            payload += b"\0"
        if cmd == 1:
            return
        header = HEADER.pack(7, cmd, HEADER.size + len(payload), 0, 0)
        self.client.send_raw(header + payload, [self.files[0]] * fds)
        assert self.client.receive().msg_id == 7

    @invariant()
    def the_map_is_what_was_agreed_to(self):
        assert len(self.server.memory) == len(self.granted)
        for page in range(12):
            taken = next((taken for taken in self.granted if page in taken), None)
            try:
                self.server.memory.read(page * PAGE, 1)
            except DmaError:
                assert taken is None or not self.granted[taken][2] & 1
            else:
                assert taken is not None

    @invariant()
    def mappings_are_bounded(self):
        assert mappings()[0] - self.before[0] <= MAX_FILES

    def teardown(self):
        self.views.clear()
        self.client.close()
        self.server.close()
        assert mappings() == self.before
        for fd in self.files:
            os.close(fd)


def test_any_client(tmp_path, monkeypatch):
    monkeypatch.setattr(backing, "_MAX_FILES", MAX_FILES)
    monkeypatch.setattr(AnyClient, "directory", tmp_path)
    # What fails is shown as it was found: to make it smaller takes longer than a test may.
    found = (Phase.explicit, Phase.reuse, Phase.generate)
    run_state_machine_as_test(
        AnyClient,
        settings=settings(max_examples=examples(100), stateful_step_count=40, phases=found),
    )

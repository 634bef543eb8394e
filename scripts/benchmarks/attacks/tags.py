"""Hostile senders to a queue that matches tags: a full list without a matching tag."""

from __future__ import annotations

from collections.abc import Iterator

from rig import MappedMemory

from attacks.watch import Watch, pattern
from emu.device.models import MODELS
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.driver.verbs.tag_queue import TagQueue, eager, request
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric

LOG_LIST = 7
"""Value of log_tag_matching_list_sz."""
LOG_MESSAGES = 12
MESSAGES = (1 << LOG_MESSAGES) - 1
READ_BYTES = 4096


class Tagged:
    """Two functions; the second one has a queue with the maximum number of tags."""

    def __init__(self, watch: Watch) -> None:
        clock, self.watch = HandClock(), watch
        self.left, self.right = two_nodes(
            MODELS["connectx6"], clock, LocalFabric(clock), make_memory=MappedMemory
        )
        for node in (self.left, self.right):
            watch.knows(node.function)
        self.queue = TagQueue(
            self.right, LOG_LIST, LOG_MESSAGES, cq=self.right.completion_queue(LOG_MESSAGES + 1)
        ).start()
        self.sender = self.left.queue_pair(log_sq_size=LOG_MESSAGES, log_cq_size=LOG_MESSAGES)
        connect(self.sender, self.queue.queue_pair())
        self.buffer, self.source = self.right.region(READ_BYTES), self.left.region(READ_BYTES)
        for _ in range(MESSAGES):
            self.queue.post(self.buffer.sge(0, 64))
        self.right.settle()

    def list_tags(self, first: int) -> None:
        """Fill the list: tags from ``first`` on."""
        for tag in range(first, first + (1 << LOG_LIST) - 1):
            self.queue.add(self.buffer.sge(), tag)
            self.right.settle()
        self.queue.drain()

    def send(self, messages: list[bytes]) -> None:
        """Post messages, inline, for one doorbell."""
        for data in messages:
            self.sender.send(data, ring=False, flags=0)

    def run(self) -> None:
        """Ring the doorbell, and run until the functions are idle."""
        self.sender.ring()
        self.watch.settle(self.left.function, self.right.function)

    def check(self, least: int) -> None:
        """Raise RuntimeError unless there are ``least`` completions."""
        found = len(self.queue.drain())
        if found < least:
            raise RuntimeError(f"{found} messages have arrived, not {least}")


@pattern(f"{MESSAGES} messages, none of which matches any of {(1 << LOG_LIST) - 1} tags")
def unexpected(watch: Watch) -> Iterator[None]:
    ends = Tagged(watch)
    ends.list_tags(MESSAGES)
    ends.send([eager(tag) for tag in range(MESSAGES)])
    yield
    ends.run()
    ends.check(MESSAGES)


@pattern(f"{(1 << LOG_LIST) - 1} rendezvous at once, each for the last tag of the list")
def rendezvous(watch: Watch) -> Iterator[None]:
    ends = Tagged(watch)
    ends.list_tags(0)
    tags = range((1 << LOG_LIST) - 2, -1, -1)
    source = ends.source
    ends.send([request(tag, source.va, source.key, READ_BYTES) for tag in tags])
    yield
    ends.run()
    ends.check(len(tags))

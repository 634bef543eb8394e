"""Limits of one poll, and sizes of the steps of long work, where work is not charged item by item.

Steps fit :data:`~emu.device.rounds.budget.SEGMENT_BUDGET`, some 2.5 ms, which the caller charges
for each. A poll ends after a fixed number of WQEs or packets even in a round without other work, so
that others wait for milliseconds at most.
"""

from __future__ import annotations

from typing import Final

# -- polls: who is polled, and the limits of one poll

QUEUES_PER_ROUND: Final = 32
"""Queues of a function that are polled in one poll of the function."""
COMMANDS_PER_ROUND: Final = 8
"""Command slots that a function starts."""
WQES_PER_POLL: Final = 16
"""WQEs of a connected queue pair: a message may have megabytes."""
BYTES_PER_POLL: Final = 4 << 20
"""Bytes of a connected queue pair's messages above 64 KiB: a millisecond of copying."""
FRAMES_PER_POLL: Final = 64
"""WQEs of an Ethernet send queue."""
PACKETS_PER_POLL: Final = 64
"""Packets of one requester, responder, link or queue between functions."""
PACKETS_PER_CONNECTION: Final = 128
"""Packets from one connection to another process."""
PACKETS_PER_ROUND: Final = 512
"""Packets from all connections to other processes."""
TRAIN_WORK: Final = 8
"""Number of packets that a train counts for, in polls and in both limits above."""
ACCEPTS_PER_ROUND: Final = 16
"""Connections that a fabric's hub accepts; frequent reconnects of one client starve no other."""
CALLS_PER_ROUND: Final = 64
"""Timer calls in each round, independent of the budget."""
REQUEST_BYTES_PER_POLL: Final = 16 << 10
"""Bytes of a vfio client's requests: some 400 BAR accesses, about a millisecond."""
WRITTEN_PER_ROUND: Final = 1 << 20
"""Approximate number of bytes that a capture writes into its file."""

# -- polls: queues that end

FLUSHED_PER_POLL: Final = 256
"""WQEs of a queue that complete with WR_FLUSH_ERR; a ring may have 32,768."""
POLLS_PER_INTERVAL: Final = 256
"""Queues that are polled for WQEs to flush, each time that the timer for it expires."""
RESPONDERS_FREED_PER_POLL: Final = 512
"""Responders that end when their DC target is destroyed."""
EVENTS_PER_POLL: Final = 256
"""Page faults whose events were delayed by a full EQ."""
FREED_PER_ROUND: Final = 5000
"""Objects that are freed after a reset; up to a million may exist, with 1 to 2 us for each."""
COST_OF_ENDING: Final = 8
"""Cost, in such objects, of one that has a timer, packet, page or other queue pending."""
LATE_PER_ROUND: Final = 256
"""Events of a queue that happen behind a delayed one: some 0.5 ms of completions."""

# -- steps

FAULTS_PER_PORTION: Final = 128
"""Page faults that fail with a completion each, when no driver is notified of them any more."""
PAGES_PER_PORTION: Final = 4096
"""Pages of a list that are checked, when no two of them are adjacent."""
RIGHTS_PER_PORTION: Final = 1 << 17
"""Entries of a list over user memory whose access rights are checked, many at once."""
BLOCKS_PER_PORTION: Final = 512
"""Mailboxes that are walked, read, written or signed."""
GROUPS_PER_PORTION: Final = 256
"""Multicast groups that a queue pair leaves when it is destroyed."""
KEYS_PER_PORTION: Final = 10_000
"""Memory keys that a census examines."""
ITEMS_PER_PORTION: Final = 256
"""Objects that a response describes."""
TOKENS_PER_PORTION: Final = 4000
"""Words of a plan whose shape is checked."""
CHARACTERS_PER_PORTION: Final = 8 << 10
"""Characters of a plan that are parsed, when the plan can be cut."""
RULES_PER_PORTION: Final = 64
"""Rules of a plan that are checked."""

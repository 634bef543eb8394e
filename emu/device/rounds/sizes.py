"""How much a turn, or a portion of longer work, holds when it is not counted as it goes.

Portions are of the size that :data:`~emu.device.rounds.budget.SEGMENT_BUDGET` allows, some 2.5 ms,
and whoever gives them their turns charges that. Turns end after so many requests or packets even in
a round in which nothing else happens, so that others wait for milliseconds at most.
"""

from __future__ import annotations

from typing import Final

# -- turns: who gets one, and what it does

QUEUES_PER_ROUND: Final = 32
"""Queues of a function that get a turn: the function's turn among the others."""
COMMANDS_PER_ROUND: Final = 8
"""Command slots that a function begins with."""
WQES_PER_POLL: Final = 16
"""Work requests of a connected queue pair: a message may have megabytes."""
BYTES_PER_POLL: Final = 4 << 20
"""Bytes of their messages: a millisecond of copying."""
FRAMES_PER_POLL: Final = 64
"""Work requests of an Ethernet send queue."""
PACKETS_PER_POLL: Final = 64
"""Packets of one requester, responder, link or queue between functions."""
PACKETS_PER_CONNECTION: Final = 128
"""Packets from one connection to another process."""
PACKETS_PER_ROUND: Final = 512
"""Packets from all of them together."""
TRAIN_WORK: Final = 8
"""As how many packets a train counts, in turns and among both of these."""
ACCEPTS_PER_ROUND: Final = 16
"""Connections that a fabric's hub accepts; who connects again and again keeps nobody out."""
CALLS_PER_ROUND: Final = 64
"""Calls of timers that are made in each round, whatever else has been done in it."""
REQUEST_BYTES_PER_POLL: Final = 16 << 10
"""Bytes of a vfio client's requests: some 400 BAR accesses, about a millisecond."""
WRITTEN_PER_ROUND: Final = 1 << 20
"""Bytes that a capture writes into its file, about."""

# -- turns: queues that end

FLUSHED_PER_POLL: Final = 256
"""Requests of a queue that complete with WR_FLUSH_ERR; a ring may have 32,768."""
POLLS_PER_INTERVAL: Final = 256
"""Queues that are looked at for requests to flush, each time that the timer for it is due."""
ENDED_PER_POLL: Final = 512
"""Responders that end when their DC target is destroyed."""
TOLD_PER_POLL: Final = 256
"""Page faults whose events have waited until there is room in their EQ."""
FREED_PER_ROUND: Final = 5000
"""Objects that are freed after a reset; there may be a million, a microsecond or two for each."""
COST_OF_ENDING: Final = 8
"""As many of them is one that waits: for a timer, a packet, a page or another queue."""

# -- portions

FAULTS_PER_PORTION: Final = 128
"""Page faults that fail, each with a completion, when nobody is told of them any more."""
PAGES_PER_PORTION: Final = 4096
"""Pages of a list that are checked, when no two of them are adjacent."""
RIGHTS_PER_PORTION: Final = 1 << 17
"""Entries of a list over user memory whose rights are looked at: one look at many of them."""
BLOCKS_PER_PORTION: Final = 512
"""Mailboxes that are walked, read, written or signed."""
KEYS_PER_PORTION: Final = 10_000
"""Memory keys that a census looks at."""
ITEMS_PER_PORTION: Final = 256
"""Objects that an answer describes."""
TOKENS_PER_PORTION: Final = 4000
"""Words of a plan whose shape is looked at."""
CHARACTERS_PER_PORTION: Final = 8 << 10
"""Characters of a plan that are parsed, when it has places to cut it."""
RULES_PER_PORTION: Final = 64
"""Rules of a plan that are checked."""

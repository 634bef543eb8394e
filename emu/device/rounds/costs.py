"""What work counts among the steps of a round.

A step is about 2.5 us on the machine that these were measured on: a page or a piece found by keys,
with the copy of it. ``STEPS_PER_...`` is what one of something costs; of what there is much, a
power of two is one step: ``LOG_..._PER_STEP``. Costs are for the worst that a guest, a client or
the wire can ask for, so honest work is often cheaper. What is not here costs less than a step, or
is bounded by the size of a turn.
"""

from __future__ import annotations

from typing import Final

# -- the loop

STEPS_PER_TIMER: Final = 4
"""A timer's call, beside what it charges for itself."""
STEPS_PER_WAIT: Final = 1
"""Something that goes on after it has waited in a line."""

# -- commands and events

STEPS_PER_COMMAND: Final = 24
"""A command's entry, mailboxes, layouts and completion."""
LOG_FREED_PER_STEP: Final = 1
"""Objects that are unlinked and freed after a reset."""
LOG_FREED_BYTES_PER_STEP: Final = 14
"""Bytes of lists that a command frees."""
STEPS_PER_STOP: Final = 16
"""A queue that is stopped, as its CQ takes no more; to look at one costs a single step."""
LOG_LISTED_PER_STEP: Final = 8
"""Objects of a table that are put into a list."""
STEPS_PER_REPACING: Final = 2
"""A send queue that finds out anew by which rates it goes."""
STEPS_PER_NEW_PACING: Final = 8
"""In addition, one that goes by others."""
STEPS_PER_EVENT: Final = 24
"""An event of the tracer: it is decoded, and its line is written."""

# -- memory and messages

STEPS_PER_WQE: Final = 4
"""A work request that needs no packets, beside what it moves."""
LOG_BYTES_PER_STEP: Final = 12
"""Bytes of a message that are copied; a page of them is found by a key as well."""
LOG_SIGNED_BYTES_PER_STEP: Final = 3
"""Bytes of which signatures are computed, or checked."""
STEPS_PER_CIPHER: Final = 12
"""A part of a data unit that is encrypted or decrypted, beside its bytes."""
LOG_TRANSLATION_BYTES_PER_STEP: Final = 8
"""Bytes of translations that a UMR writes."""

# -- transport packets

STEPS_PER_PACKET: Final = 2
"""A packet for a connection: parsed and checked, beside the pieces of its memory."""
STEPS_PER_DATAGRAM: Final = 6
"""A datagram for one receiver, beside the pieces of its request."""
STEPS_PER_NOTICE: Final = 4
"""A CNP, beside the time that it makes up for."""
LOG_INTERVALS_PER_STEP: Final = 1
"""Intervals of time that a flow's rate makes up for."""

# -- frames

STEPS_PER_FRAME: Final = 4
"""A packet that is sent, before anybody receives it."""
LOG_CUT_PER_STEP: Final = 2
"""Packets that are cut out of a super-frame."""
LOG_STEERED_PER_STEP: Final = 3
"""Fields, groups, tables or counters that a packet's way through flow tables takes."""
LOG_ROOMS_PER_STEP: Final = 1
"""Receive queues that are asked for how many packets they have requests."""
STEPS_PER_DECISION: Final = 4
"""A packet of a super-frame that passes a switch's tables by itself."""
STEPS_PER_COPY: Final = 1
"""A packet that a switch gives to one more vPort."""
STEPS_PER_DELIVERY: Final = 6
"""A packet that a queue receives."""
STEPS_PER_HELD: Final = 3
"""In addition, one that may be merged with others of its stream."""
STEPS_IN_VAIN: Final = 64
"""In addition, one whose receive request falls into too many pieces."""
LOG_SEGMENTS_PER_STEP: Final = 3
"""Segments of receive requests that are read."""
STEPS_PER_REWRITE: Final = 4
"""In addition, one that flow tables change for this queue."""
LOG_CHANGES_PER_STEP: Final = 1
"""Changes of them."""

# -- between functions and processes

STEPS_PER_UPLINK_FRAME: Final = 2
"""A frame that an uplink writes, or reads."""
STEPS_PER_LINK_PACKET: Final = 8
"""A packet that a link decides about."""
STEPS_PER_NEWS: Final = 64
"""A fabric's member that is told of changed ports."""
LOG_NEWS_BYTES_PER_STEP: Final = 10
"""Bytes of what it is told, with what comes of them."""
STEPS_PER_RECORD: Final = 4
"""A record that the subnet's administrator makes, or looks at."""
STEPS_PER_LINK_FOUND: Final = 2
"""A link on the way of packets through a simulated subnet, when the way is found."""
STEPS_PER_LINK_COUNTED: Final = 2
"""A link whose counters are added to, at both of its ends."""
STEPS_PER_BLOCK: Final = 4
"""A packet in a capture."""
LOG_BLOCK_BYTES_PER_STEP: Final = 13
"""Its bytes."""

# -- the control socket

STEPS_PER_REQUEST: Final = 8
"""A portion of a client's request."""
LOG_ANSWER_BYTES_PER_STEP: Final = 6
"""Bytes of the answer, as JSON."""

"""Costs of work in steps of a round.

A step is about 2.5 us on the machine of the measurements: one page or segment looked up by keys and
copied. ``STEPS_PER_...`` is the cost of one item; ``LOG_..._PER_STEP`` is the log of the number of
items per step, for numerous items. Costs are for the worst case that a guest, a client or the wire
can cause, so ordinary work is often cheaper. Work that is not listed costs less than a step, or is
limited by the size of a poll.
"""

from __future__ import annotations

from typing import Final

# -- the loop

STEPS_PER_TIMER: Final = 4
"""A timer's call, in addition to its own charges."""
STEPS_PER_WAIT: Final = 1
"""An item that continues after it has waited in a backlog."""

# -- resets, commands and events

STEPS_PER_RESTART: Final = 320
"""A reset of a function: the tables and registers of a new HCA."""
STEPS_PER_SHUT_DOWN: Final = 160
"""Objects of a function that are dropped: new tables."""

STEPS_PER_COMMAND: Final = 24
"""A command's entry, mailboxes, layouts and completion."""
LOG_FREED_PER_STEP: Final = 1
"""Objects that are unlinked and freed after a reset."""
LOG_FREED_BYTES_PER_STEP: Final = 14
"""Bytes of lists that a command frees."""
STEPS_PER_STOP: Final = 16
"""A queue that is stopped because its CQ takes no more CQEs; to check one costs a single step."""
LOG_LISTED_PER_STEP: Final = 8
"""Objects of a table that are put into a list."""
LOG_EXAMINED_PER_STEP: Final = 4
"""Objects of a table that are put into a list if they are of one kind, or described there."""
STEPS_PER_REPACING: Final = 2
"""A send queue that looks up its rate limits again."""
STEPS_PER_NEW_PACING: Final = 8
"""Additional cost of a send queue whose rate limits have changed."""
STEPS_PER_EVENT: Final = 24
"""An event of the tracer: decoding and writing its line."""

# -- memory and messages

STEPS_PER_WQE: Final = 4
"""A WQE that needs no packets, in addition to its bytes."""
STEPS_PER_ASO: Final = 8
"""An ACCESS_ASO request: its conditions and mask, and the parameters that it reads and writes."""
STEPS_PER_ERROR: Final = 2
"""A CQE of a request that has failed or is flushed."""
LOG_BYTES_PER_STEP: Final = 12
"""Bytes of a message that are copied; includes the key lookup of each page."""
LOG_SIGNED_BYTES_PER_STEP: Final = 3
"""Bytes of which signatures are computed or checked."""
STEPS_PER_CIPHER: Final = 12
"""A segment of a data unit that is encrypted or decrypted, in addition to its bytes."""
LOG_TRANSLATION_BYTES_PER_STEP: Final = 8
"""Bytes of translations that a UMR writes."""

# -- transport packets

STEPS_PER_PACKET: Final = 2
"""A packet for a connection: parsing and checks, in addition to its memory segments."""
STEPS_PER_DATAGRAM: Final = 6
"""A datagram for one receiver, in addition to the segments of its receive WQE."""
STEPS_PER_NOTICE: Final = 4
"""A CNP, in addition to the elapsed intervals that it accounts for."""
LOG_INTERVALS_PER_STEP: Final = 1
"""Elapsed intervals by which a flow's rate is raised."""

# -- frames

STEPS_PER_FRAME: Final = 4
"""A packet that is sent, before any delivery."""
LOG_CUT_PER_STEP: Final = 2
"""Packets that are cut out of a super-frame."""
LOG_STEERED_PER_STEP: Final = 3
"""Fields, groups, tables or counters on a packet's path through flow tables."""
LOG_CREDITS_PER_STEP: Final = 1
"""Receive queues that are checked for their number of posted WQEs."""
LOG_EXPIRED_PER_STEP: Final = 4
"""Functions whose credits expire."""
STEPS_PER_DECISION: Final = 4
"""A packet of a super-frame that passes a switch's tables separately."""
STEPS_PER_COPY: Final = 1
"""A packet that a switch delivers to one more vPort."""
STEPS_PER_DELIVERY: Final = 6
"""A packet that a queue receives."""
STEPS_PER_HELD: Final = 3
"""Additional cost of a packet that may be merged with others of its stream."""
STEPS_PER_REFUSED_WQE: Final = 64
"""Additional cost of a packet whose receive WQE has too many segments."""
LOG_SEGMENTS_PER_STEP: Final = 3
"""Segments of receive WQEs that are read."""
STEPS_PER_REWRITE: Final = 4
"""Additional cost of a packet that flow tables modify, for each queue or table that gets it."""
LOG_CHANGES_PER_STEP: Final = 1
"""Modifications of such packets; one that moves headers counts twice, without the copied bytes."""

# -- between functions and processes

STEPS_PER_UPLINK_FRAME: Final = 2
"""A frame that an uplink writes or reads."""
STEPS_PER_LINK_PACKET: Final = 8
"""A packet for which a link decides the outcome."""
STEPS_PER_NOTIFICATION: Final = 64
"""A fabric's member that is notified of changed ports."""
LOG_NOTIFICATION_BYTES_PER_STEP: Final = 10
"""Bytes of the notification, including their processing."""
STEPS_PER_PORT: Final = 1
"""A port of the subnet that is compared or announced, without its P_Keys."""
LOG_PKEYS_PER_STEP: Final = 5
"""P_Keys of such a port."""
STEPS_PER_RECORD: Final = 4
"""A record that the subnet administrator makes or examines."""
STEPS_PER_LINK_FOUND: Final = 2
"""A link on a path through a simulated subnet, when the path is computed."""
STEPS_PER_LINK_COUNTED: Final = 2
"""A link whose counters are incremented, at both of its ends."""
STEPS_PER_LINK_OF_SMP: Final = 2
"""A link that a subnet management packet passes in a simulated subnet."""
STEPS_PER_PORT_COUNTED: Final = 8
"""A port of a simulated subnet whose counters a management packet reads and sets."""
STEPS_PER_BLOCK: Final = 4
"""A packet in a capture."""
LOG_BLOCK_BYTES_PER_STEP: Final = 13
"""Bytes of a packet in a capture."""

# -- the control socket

STEPS_PER_REQUEST: Final = 8
"""A step of a client's request."""
LOG_ANSWER_BYTES_PER_STEP: Final = 6
"""Bytes of the response, as JSON."""

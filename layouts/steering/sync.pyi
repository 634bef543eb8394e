# Written by scripts/gen-view-types from sync.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class SyncSteeringIn(View):
    opcode: int
    uid: int
    op_mod: int

sync_steering_in: Prm[SyncSteeringIn]

class SyncSteeringOut(View):
    status: int
    syndrome: int

sync_steering_out: Prm[SyncSteeringOut]

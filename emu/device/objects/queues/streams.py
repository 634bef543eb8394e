"""Streams of a DC initiator, which confine a failed request to its stream.

Each WQE names a stream. A failed stream flushes its further WQEs until the driver resets it. When
too many streams have failed, the queue pair moves to ERR.

Source: rdma-core, mlx5dv_create_qp(3) and mlx5dv_dci_stream_id_reset(3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from layouts.objects.qp import qpc

_FIRST: Final = 9
_END: Final = 11
"""Bytes of the stream number in a control segment (rdma-core: mlx5_wqe_ctrl_seg)."""


class DciStreams:
    """The failed streams of an initiator, by number."""

    __slots__ = ("failed", "limit")

    def __init__(self, limit: int) -> None:
        """Create the set; the queue pair stops at ``limit`` failed streams."""
        self.limit = limit
        self.failed: set[int] = set()

    @classmethod
    def of(cls, ctx: qpc) -> DciStreams | None:
        """Return the streams that a qpc requests, none of them failed.

        None without stream channels.
        """
        if not ctx.log_num_dci_stream_channels:
            return None
        return cls(1 << ctx.log_num_dci_errored_streams)

    def has_failed(self, wqe: bytes) -> bool:
        """Return whether the WQE's stream has failed."""
        return int.from_bytes(wqe[_FIRST:_END], "big") in self.failed

    def fail(self, wqe: bytes) -> bool:
        """Mark the WQE's stream as failed; return whether the queue pair may continue.

        False once ``limit`` streams have failed.
        """
        self.failed.add(int.from_bytes(wqe[_FIRST:_END], "big"))
        return len(self.failed) < self.limit

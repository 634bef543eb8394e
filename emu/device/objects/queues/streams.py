"""Streams of a DC initiator: a request that fails stops its stream, and not the queue pair.

Each request names a stream. A failed stream flushes its further requests until the driver resets
it; one failed stream too many moves the queue pair to ERR. Source: rdma-core, mlx5dv_create_qp(3)
and mlx5dv_dci_stream_id_reset(3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from layouts.objects.qp import Qpc

_FIRST: Final = 9
_END: Final = 11
"""Where a control segment has the stream's number (rdma-core: mlx5_wqe_ctrl_seg)."""


class DciStreams:
    """Which streams of an initiator have failed, by number."""

    __slots__ = ("failed", "limit")

    def __init__(self, limit: int) -> None:
        """With ``limit`` failed streams the queue pair stops."""
        self.limit = limit
        self.failed: set[int] = set()

    @classmethod
    def of(cls, ctx: Qpc) -> DciStreams | None:
        """Those that a qpc asks for; None without any."""
        if not ctx.log_num_dci_stream_channels:
            return None
        return cls(1 << ctx.log_num_dci_errored_streams)

    def has_failed(self, wqe: bytes) -> bool:
        """Whether the request's stream has."""
        return int.from_bytes(wqe[_FIRST:_END], "big") in self.failed

    def fail(self, wqe: bytes) -> bool:
        """The request has failed; True when the queue pair goes on."""
        self.failed.add(int.from_bytes(wqe[_FIRST:_END], "big"))
        return len(self.failed) < self.limit

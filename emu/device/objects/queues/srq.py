"""Shared receive queues of all four forms."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakSet

from emu.device.objects.domains import Pd, Xrcd
from emu.device.objects.memory.umem import Umem
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from emu.device.objects.queues.cq import Cq

if TYPE_CHECKING:
    from emu.device.objects.queues.receive_queue import SharedRecvQueue
    from emu.device.objects.queues.receive_request import ReceiveRequest
    from emu.device.objects.queues.tag_list import TagList
    from layouts.objects.srq import rmpc, srqc, xrc_srqc
    from layouts.objects.xrq import xrqc


_RMPC_STATE_ERR: Final = 3
_SRQC_STATE_ERROR: Final = 1


class SrqForm(Enum):
    """The four commands that create a shared receive queue."""

    RMP = "rmp"
    XRC_SRQ = "xrc_srq"
    SRQ = "srq"
    XRQ = "xrq"


class Srq(Object):
    """A shared receive queue of one of the four forms."""

    __slots__ = (
        "_begun", "cq", "ctx", "form", "is_in_error", "lwm", "pd", "queue", "tags",
        "uidx", "umems", "xrcd"
    )  # fmt: skip
    kind = "srq"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_srq)
    BASE_BYTES = 3072

    def __init__(
        self,
        form: SrqForm,
        ctx: rmpc | srqc | xrc_srqc | xrqc,
        queue: SharedRecvQueue,
        pd: Pd,
        xrcd: Xrcd | None = None,
        cq: Cq | None = None,
        umems: tuple[Umem, ...] = (),
        tags: TagList | None = None,
    ) -> None:
        super().__init__()
        self.umems = umems
        self.form = form
        self.ctx = ctx
        self.queue = queue
        self.pd = pd
        self.xrcd = xrcd
        self.cq = cq
        self.lwm = 0
        """Limit water mark; 0 means disarmed."""
        self.tags = tags
        """The tag list of an XRQ."""
        self.uidx: int | None = None
        """user_index of an XRC SRQ or an XRQ for completions; None: the queue's number."""
        self.is_in_error = False
        """Whether the driver has been notified that the queue provides no more WQEs."""
        self._begun: WeakSet[ReceiveRequest] | None = None
        """WQEs of messages in progress on queue pairs that do not refer to this queue (XRC)."""

    def encode(self) -> rmpc | srqc | xrc_srqc | xrqc:
        """Write limit water mark, error state and tag list counts into the context; return it.

        The state is written only for a queue in error.
        """
        if self.form in (SrqForm.RMP, SrqForm.XRQ):
            cast("rmpc | xrqc", self.ctx).wq.lwm = self.lwm
        else:
            cast("srqc | xrc_srqc", self.ctx).lwm = self.lwm
        if self.is_in_error:
            self.ctx.state = _RMPC_STATE_ERR if self.form is SrqForm.RMP else _SRQC_STATE_ERROR
        if self.tags is not None:
            context = cast("xrqc", self.ctx).tag_matching_topology_context
            context.append_next_index = self.tags.next_index
            context.sw_phase_cnt = self.tags.sw_phase
            context.hw_phase_cnt = self.tags.hw_phase
        return self.ctx

    def track_in_flight(self, wqe: ReceiveRequest) -> None:
        """Track a WQE that a message has taken and will fill later, for ``detach_in_flight``.

        An XRC message names its queue by number, which is not a reference. A driver may destroy the
        queue, and then the CQ, while the message is in progress.
        """
        if self._begun is None:
            self._begun = WeakSet()
        self._begun.add(wqe)

    def detach_in_flight(self) -> None:
        """Detach the WQEs of messages in progress, as the queue is destroyed: none completes."""
        for wqe in self._begun or ():
            wqe.wqe = None

    @property
    def host_bytes(self) -> int:
        tags = 0 if self.tags is None else self.tags.host_bytes
        return self.BASE_BYTES + self.queue.host_bytes + tags

    def about(self) -> dict[str, object]:
        """Return form, PD and error state; for an XRQ also tags and unexpected messages."""
        about: dict[str, object] = {
            "form": self.form.value, "pd": self.pd.handle, "in_error": self.is_in_error
        }  # fmt: skip
        if self.tags is not None:
            about |= {"tags": self.tags.count, "unexpected": self.tags.hw_phase}
        return about

    def holds(self) -> tuple[Object, ...]:
        references = (self.pd, self.xrcd, self.cq)
        return (*(part for part in references if part is not None), *self.umems)

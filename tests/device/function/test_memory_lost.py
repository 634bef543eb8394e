"""Guest memory that goes at any moment: whatever the device was about to read or write.

The same traffic runs again and again; each time one access more is granted than before, and none
after it. The device may break queues and say so; nothing else may happen to it.
"""

import pytest

from emu.device.ports import DmaError
from emu.driver.verbs.channels import Channel
from layouts.enums.qp import QpState, QpType

pytestmark = pytest.mark.hostile

SIZE = 3000
MOST = 400


class Grant:
    """Lets so many accesses of some memories through, and no more, while it is in force."""

    def __init__(self, memories, most):
        self.memories, self.left = memories, most

    def __enter__(self):
        for memory in self.memories:
            memory.watch(self._count)
        return self

    def _count(self, iova, length, _is_write):
        self.left -= 1
        if self.left < 0:
            raise DmaError(iova, length, "not granted any more")

    def __exit__(self, *_):
        for memory in self.memories:
            memory.watch(None)


def post(channel, source, target):
    """Some of everything that the service has."""
    here, remote = source.sge(0, SIZE), (target.key, target.va)
    for _ in range(2):
        channel.post_recv(target.sge())
    if channel.service is QpType.UD:
        for _ in range(2):
            channel.send(source.sge(0, 1000))
        return
    channel.send(here)
    channel.write(remote, here, imm=1)
    if channel.service is not QpType.UC:
        channel.read(remote, here)
        channel.fetch_add(remote, source.sge(0, 8), 1)


@pytest.mark.parametrize("service", [QpType.RC, QpType.UC, QpType.XRC, QpType.UD])
def test_no_access_is_taken_for_granted(ends, service, clock):
    memories = {id(end.memory): end.memory for end in ends}.values()
    source, target = ends[0].region(4096), ends[1].region(4096)
    for granted in range(MOST):
        channel = Channel(service, *ends, **({} if service is QpType.UD else {"mtu": 3}))
        if channel.srqn is not None:
            channel.srq.arm(5)
        for cq in (channel.sender.cq, channel.recv_cq):
            cq.arm()
        post(channel, source, target)
        with Grant(memories, granted) as grant:
            channel.settle()
            clock.advance(10_000_000)
            channel.settle()
        for qp in (channel.sender, channel.receiver):
            if qp.state is not QpState.RST:
                qp.to_reset()
            qp.destroy()
        if grant.left > 0:
            return
    pytest.fail("the traffic never came to its end")

"""VFIO_USER_DEVICE_SET_IRQS, and the vectors that the function raises."""

import contextlib
import errno
import os

import pytest

from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import IRQ_SET, Irq, IrqSetFlag, VfioCommand

EVENTFD = IrqSetFlag.DATA_EVENTFD | IrqSetFlag.ACTION_TRIGGER
NONE = IrqSetFlag.DATA_NONE | IrqSetFlag.ACTION_TRIGGER
BOOL = IrqSetFlag.DATA_BOOL | IrqSetFlag.ACTION_TRIGGER


@pytest.fixture
def eventfds():
    """Makes eventfds and closes them."""
    with contextlib.ExitStack() as cleanup:

        def make(count, flags=os.EFD_NONBLOCK):
            fds = [os.eventfd(0, flags) for _ in range(count)]
            for fd in fds:
                cleanup.callback(os.close, fd)
            return fds

        yield make


def fired(fd):
    """How often an eventfd was signalled since the last look."""
    try:
        return os.eventfd_read(fd)
    except BlockingIOError:
        return 0


def test_one_vector_at_a_time(served, client):
    fds = [client.enable_vector(vector) for vector in range(3)]
    served.interrupts.trigger(1)
    assert [fired(fd) for fd in fds] == [0, 1, 0]
    served.interrupts.trigger(2)
    served.interrupts.trigger(2)
    assert [fired(fd) for fd in fds] == [0, 0, 2]
    assert not any(served.interrupts.pending(vector) for vector in range(3))


def test_qemus_first_message_has_no_descriptor(client):
    client.set_irqs(EVENTFD, 0, 1)


def test_a_set_split_at_max_msg_fds(served, client, eventfds):
    fds = eventfds(32)
    client.set_irqs(EVENTFD, 0, 16, fds=fds[:16])
    client.set_irqs(EVENTFD, 16, 16, fds=fds[16:])
    for vector in (0, 15, 16, 31):
        served.interrupts.trigger(vector)
    assert [vector for vector, fd in enumerate(fds) if fired(fd)] == [0, 15, 16, 31]


def latched(served):
    """The vectors that are."""
    interrupts = served.interrupts
    return [vector for vector in range(interrupts.count) if interrupts.pending(vector)]


def test_a_vector_without_eventfd_is_latched(served, client):
    first = client.enable_vector(0)
    served.interrupts.trigger(5)
    served.interrupts.trigger(5)
    assert latched(served) == [5]
    client.enable_vector(4)
    assert served.interrupts.pending(5)
    late = client.enable_vector(5)
    assert fired(late) == 1
    assert fired(first) == 0
    assert not latched(served)


def test_latching_before_there_is_a_client(served):
    served.interrupts.trigger(0)
    assert served.interrupts.pending(0)
    assert fired(served.client().enable_vector(0)) == 1


def test_a_new_eventfd_replaces_the_old_one(served, client):
    old, new = client.enable_vector(3), client.enable_vector(3)
    served.interrupts.trigger(3)
    assert (fired(old), fired(new)) == (0, 1)


def test_taking_one_eventfd_back(own, own_client, eventfds):
    fds = eventfds(4)
    own_client.set_irqs(EVENTFD, 0, 4, fds=fds)
    own_client.set_irqs(EVENTFD, 1, 2)
    for vector in range(4):
        own.interrupts.trigger(vector)
    assert [fired(fd) for fd in fds] == [1, 0, 0, 1]
    assert latched(own) == [1, 2]


def test_disabling_all(served, client, eventfds):
    fds = eventfds(4)
    client.set_irqs(EVENTFD, 0, 4, fds=fds)
    client.set_irqs(NONE, 0, 0)
    served.interrupts.trigger(2)
    assert not any(fired(fd) for fd in fds)
    assert served.interrupts.pending(2)


def test_the_client_can_fire_its_own_eventfds(client, eventfds):
    fds = eventfds(4)
    client.set_irqs(EVENTFD, 0, 4, fds=fds)
    client.set_irqs(NONE, 1, 2)
    assert [fired(fd) for fd in fds] == [0, 1, 1, 0]
    client.set_irqs(BOOL, 0, 4, data=b"\1\0\0\1")
    assert [fired(fd) for fd in fds] == [1, 0, 0, 1]


@pytest.mark.parametrize("index", [Irq.ERR, Irq.REQ])
def test_err_and_req_take_one_eventfd(served, client, eventfds, index):
    (fd,) = eventfds(1)
    client.set_irqs(EVENTFD, 0, 1, index=index, fds=[fd])
    client.set_irqs(NONE, 0, 1, index=index)
    assert fired(fd) == 1
    served.interrupts.trigger(0)
    assert fired(fd) == 0
    client.set_irqs(NONE, 0, 0, index=index)
    client.set_irqs(NONE, 0, 1, index=index)
    assert fired(fd) == 0


@pytest.mark.parametrize(
    ("flags", "index", "start", "count", "data", "number"),
    [
        (EVENTFD, Irq.MSIX, 32, 1, b"", 1),
        (EVENTFD, Irq.MSIX, 31, 2, b"", 2),
        (EVENTFD, Irq.MSIX, 0xFFFFFFFF, 1, b"", 1),
        (EVENTFD, Irq.MSIX, 1, 0xFFFFFFFF, b"", 0),
        (EVENTFD, Irq.MSIX, 0, 2, b"", 1),
        (EVENTFD, Irq.MSIX, 0, 1, b"", 2),
        (EVENTFD, Irq.MSIX, 0, 0, b"", 0),
        (EVENTFD, Irq.INTX, 0, 1, b"", 1),
        (EVENTFD, Irq.MSI, 0, 1, b"", 1),
        (EVENTFD, 5, 0, 1, b"", 1),
        (EVENTFD, Irq.ERR, 0, 2, b"", 2),
        (NONE, Irq.MSIX, 1, 0, b"", 0),
        (NONE, Irq.MSIX, 0, 1, b"", 1),
        (BOOL, Irq.MSIX, 0, 0, b"", 0),
        (BOOL, Irq.MSIX, 0, 4, b"\1\1\1", 0),
        (BOOL, Irq.MSIX, 0, 4, b"\1\1\1\1\1", 0),
        (EVENTFD | IrqSetFlag.DATA_NONE, Irq.MSIX, 0, 1, b"", 1),
        (EVENTFD | IrqSetFlag.ACTION_MASK, Irq.MSIX, 0, 1, b"", 1),
        (IrqSetFlag.ACTION_TRIGGER, Irq.MSIX, 0, 1, b"", 0),
        (IrqSetFlag.DATA_NONE, Irq.MSIX, 0, 1, b"", 0),
    ],
)
def test_bad_set_changes_nothing(
    served, client, eventfds, flags, index, start, count, data, number
):
    good = client.enable_vector(0)
    with pytest.raises(VfioRefusedError) as refused:
        client.set_irqs(flags, start, count, index=index, data=data, fds=eventfds(number))
    assert refused.value.errno == errno.EINVAL
    served.interrupts.trigger(0)
    assert fired(good) == 1


@pytest.mark.parametrize(
    ("flags", "data"),
    [
        (EVENTFD | 0x40, b""),
        (IrqSetFlag.DATA_NONE | IrqSetFlag.ACTION_MASK, b""),
        (IrqSetFlag.DATA_NONE | IrqSetFlag.ACTION_UNMASK, b""),
        (NONE, b"\1"),
        (EVENTFD, b"\1\0\0\0"),
    ],
)
def test_what_we_do_not_offer_is_refused(own_client, flags, data):
    with pytest.raises(VfioRefusedError) as refused:
        own_client.set_irqs(flags, 0, 1, data=data)
    assert refused.value.errno == errno.EINVAL


@pytest.mark.parametrize("payload", [b"", IRQ_SET.pack(19, NONE, 2, 0, 1), IRQ_SET.pack(*[0] * 5)])
def test_bad_size_is_refused(client, payload):
    with pytest.raises(VfioRefusedError) as refused:
        client.call(VfioCommand.DEVICE_SET_IRQS, payload)
    assert refused.value.errno == errno.EINVAL


def test_too_many_descriptors(own, own_client, eventfds):
    with pytest.raises(VfioRefusedError) as refused:
        own_client.set_irqs(EVENTFD, 0, 17, fds=eventfds(17))
    assert refused.value.errno == errno.EINVAL
    with pytest.raises(VfioRefusedError):
        own_client.set_irqs(EVENTFD, 0, 32, fds=eventfds(253))
    own_client.device_info()


def test_only_an_eventfd_will_do(own, own_client, eventfds):
    """Writing to anything else could block us, or hit a file of ours."""
    reader, writer = os.pipe()
    try:
        with pytest.raises(VfioRefusedError) as refused:
            own_client.set_irqs(EVENTFD, 0, 2, fds=[*eventfds(1), writer])
        assert refused.value.errno == errno.EINVAL
    finally:
        os.close(reader)
        os.close(writer)
    own.interrupts.trigger(0)
    assert own.interrupts.pending(0)


def test_a_full_blocking_eventfd_does_not_block_us(own, own_client, eventfds):
    (fd,) = eventfds(1, flags=0)
    os.eventfd_write(fd, 0xFFFFFFFFFFFFFFFE)
    own_client.set_irqs(EVENTFD, 0, 1, fds=[fd])
    own.interrupts.trigger(0)
    assert fired(fd) == 0xFFFFFFFFFFFFFFFE


def test_vectors_are_latched_while_the_function_may_not_master_the_bus(served, client):
    """The permission sends those that the client has set up, the others wait for it."""
    fd = client.enable_vector(0)
    served.interrupts.permit(False)
    for vector in (0, 0, 1):
        served.interrupts.trigger(vector)
    late = client.enable_vector(2)
    served.interrupts.trigger(2)
    assert [fired(fd), fired(late)] == [0, 0]
    assert [served.interrupts.pending(vector) for vector in range(4)] == [True] * 3 + [False]
    served.interrupts.permit(True)
    assert [fired(fd), fired(late)] == [1, 1]
    assert [served.interrupts.pending(vector) for vector in range(3)] == [False, True, False]


@pytest.mark.parametrize("vector", [-1, 32])
def test_the_function_raises_only_what_it_has(served, vector):
    with pytest.raises(IndexError):
        served.interrupts.trigger(vector)


def test_descriptors_for_a_command_without_any(own_client, eventfds):
    msg_id = own_client.send(VfioCommand.DEVICE_RESET, fds=eventfds(1))
    reply = own_client.receive()
    assert (reply.msg_id, reply.errno) == (msg_id, errno.EINVAL)

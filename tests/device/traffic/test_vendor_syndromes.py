"""vendor_err_synd of error completions: the values of public logs, for what causes them."""

import pytest

from emu.device.engine.events.vendor_syndromes import VENDOR_SYNDROMES, Cause, vendor_syndrome
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.completions import ERRORS
from layouts.enums import CqeOpcode, CqeSyndrome, QpType

REQ, RESP = CqeOpcode.REQ_ERR, CqeOpcode.RESP_ERR
LONG_NS = 1 << 40
SECOND_NS = 1_000_000_000
NOWHERE = (0xBAD00, 0)


def errors(queue):
    """(syndrome, vendor syndrome) of each error completion."""
    return [(done.syndrome, done.vendor) for done in queue.drain() if done.opcode in ERRORS]


@pytest.fixture
def channel(ends):
    return Channel(QpType.RC, *ends, ack_timeout=1, retry_count=1, rnr_retry=0)


@pytest.fixture
def local(channel):
    return channel.left.region(4096)


@pytest.fixture
def remote(channel):
    region = channel.right.region(4096)
    return region.key, region.va


def key(channel, local, remote):
    channel.write(remote, (8, NOWHERE[0], local.va))


def bounds(channel, local, remote):
    channel.write(remote, (8, local.key, local.va + 4092))


def scatter(channel, local, remote):
    region = channel.left.region(4096, lw=0)
    channel.read(remote, region.sge(0, 8))


def atomic_scatter(channel, local, remote):
    region = channel.left.region(4096, lw=0)
    channel.fetch_add(remote, region.sge(0, 8), 1)


def opcode(channel, local, remote):
    channel.sender.post(0x7F)


def long(channel, local, remote):
    channel.sender.node.hca.qps.need(channel.sender.qpn).log_msg_max = 2
    channel.write(remote, local.sge(0, 8))


def remote_access(channel, local, remote):
    channel.write(NOWHERE, local.sge(0, 8))


def invalid_request(channel, local, remote):
    channel.post_recv(channel.right.region(4096).sge(0, 3))
    channel.send(b"four")


def remote_operation(channel, local, remote):
    channel.post_recv((8, *NOWHERE))
    channel.send(b"four")


def not_ready(channel, local, remote):
    channel.send(b"four")


def silence(channel, local, remote):
    channel.receiver.to_reset()
    channel.send(b"four")


CAUSES = [
    (key, CqeSyndrome.LOCAL_PROT_ERR, 0x52),
    (bounds, CqeSyndrome.LOCAL_PROT_ERR, 0x53),
    (scatter, CqeSyndrome.LOCAL_PROT_ERR, 0x33),
    (atomic_scatter, CqeSyndrome.LOCAL_PROT_ERR, 0x33),
    (opcode, CqeSyndrome.LOCAL_QP_OP_ERR, 0x68),
    (long, CqeSyndrome.LOCAL_LENGTH_ERR, 0x68),
    (remote_access, CqeSyndrome.REMOTE_ACCESS_ERR, 0x88),
    (invalid_request, CqeSyndrome.REMOTE_INVAL_REQ_ERR, 0x8A),
    (remote_operation, CqeSyndrome.REMOTE_OP_ERR, 0x89),
    (not_ready, CqeSyndrome.RNR_RETRY_EXC_ERR, 0x87),
    (silence, CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, 0x81),
]


@pytest.mark.parametrize(
    ("cause", "syndrome", "vendor"), CAUSES, ids=[cause.__name__ for cause, *_ in CAUSES]
)
def test_requester(channel, local, remote, clock, cause, syndrome, vendor):
    """What follows in the queue is flushed with a value that tells of a failure."""
    cause(channel, local, remote)
    channel.write(remote, local.sge(0, 8))
    channel.settle()
    for _ in range(8):
        clock.advance(LONG_NS)
        channel.settle()
    assert errors(channel.sender.cq) == [(syndrome, vendor), (CqeSyndrome.WR_FLUSH_ERR, 0xF9)]


@pytest.mark.parametrize(
    ("cause", "syndrome", "vendor"),
    [
        (remote_operation, CqeSyndrome.LOCAL_PROT_ERR, 0x32),
        (invalid_request, CqeSyndrome.LOCAL_LENGTH_ERR, 0xD5),
    ],
)
def test_responder(channel, local, remote, clock, cause, syndrome, vendor):
    cause(channel, local, remote)
    channel.post_recv(local.sge(0, 8))
    channel.settle()
    assert errors(channel.recv_cq) == [(syndrome, vendor), (CqeSyndrome.WR_FLUSH_ERR, 0xF9)]


def test_flushed_by_command(channel, local, remote, clock):
    channel.receiver.to_error()
    channel.post_recv(local.sge(0, 8))
    channel.sender.to_error()
    channel.write(remote, local.sge(0, 8))
    channel.settle()
    clock.advance(SECOND_NS)
    channel.settle()
    flushed = [(CqeSyndrome.WR_FLUSH_ERR, 0xF5)]
    assert (errors(channel.sender.cq), errors(channel.recv_cq)) == (flushed, flushed)


# -- the table


@pytest.mark.parametrize("syndrome", CqeSyndrome)
def test_requesters_have_a_value_for_every_error(syndrome):
    causes = [Cause.ANY]
    if syndrome is CqeSyndrome.WR_FLUSH_ERR:
        causes = [Cause.COMMAND, Cause.FAILURE]
    assert all(vendor_syndrome(REQ, syndrome, cause) for cause in causes)


def test_what_is_not_in_the_table():
    """A fault plan may ask for it."""
    assert vendor_syndrome(RESP, CqeSyndrome.RNR_RETRY_EXC_ERR) == 0


def test_marks_of_the_table():
    """Whoever finds one of these in a public log changes its mark."""
    inferred = {
        (opcode, syndrome)
        for (opcode, syndrome, _), found in VENDOR_SYNDROMES.items()
        if not found.is_seen
    }
    assert inferred == {
        (REQ, CqeSyndrome.BAD_RESP_ERR),
        (REQ, CqeSyndrome.LOCAL_ACCESS_ERR),
        (REQ, CqeSyndrome.REMOTE_ABORTED_ERR),
        (RESP, CqeSyndrome.LOCAL_LENGTH_ERR),
        (RESP, CqeSyndrome.WR_FLUSH_ERR),
        (RESP, CqeSyndrome.LOCAL_ACCESS_ERR),
    }

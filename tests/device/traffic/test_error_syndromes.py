"""Vendor and hardware syndromes of errors: the values of public logs, for what causes them."""

import pytest

from emu.driver.verbs.channels import Channel
from emu.driver.verbs.completions import ERRORS
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpType
from layouts.objects.qp import qpc_ext

REQ, RESP = CqeOpcode.REQ_ERR, CqeOpcode.RESP_ERR
LONG_NS = 1 << 40
SECOND_NS = 1_000_000_000
NOWHERE = (0xBAD00, 0)
EVENT_SYNDROME = CqeSyndrome.REMOTE_ABORTED_ERR
"""What the context of a queue pair says after an event that has no completion."""


def errors(queue):
    """(syndrome, vendor syndrome, type and hardware syndrome) of each error completion."""
    return [
        (done.syndrome, done.vendor, done.hw) for done in queue.drain() if done.opcode in ERRORS
    ]


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


def scatter_bounds(channel, local, remote):
    channel.read(remote, (8, local.key, local.va + 4092))


def receive_bounds(channel, local, remote):
    region = channel.right.region(4096)
    channel.post_recv((8, region.key, region.va + 4092))
    channel.send(b"eightyes")


def opcode(channel, local, remote):
    channel.sender.post(0x7F)


def long(channel, local, remote):
    channel.sender.node.hca.qps.need(channel.sender.qpn).max_message = 4
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


FLUSHED = (CqeSyndrome.WR_FLUSH_ERR, 0xF9, (0, 0))

CAUSES = [
    (key, CqeSyndrome.LOCAL_PROT_ERR, 0x52, (0, 146)),
    (bounds, CqeSyndrome.LOCAL_PROT_ERR, 0x53, (0, 157)),
    (scatter, CqeSyndrome.LOCAL_PROT_ERR, 0x32, (0, 149)),
    (scatter_bounds, CqeSyndrome.LOCAL_PROT_ERR, 0x33, (0, 157)),
    (atomic_scatter, CqeSyndrome.LOCAL_PROT_ERR, 0x32, (0, 149)),
    (opcode, CqeSyndrome.LOCAL_QP_OP_ERR, 0x68, (0, 31)),
    (long, CqeSyndrome.LOCAL_LENGTH_ERR, 0x68, (1, 96)),
    (remote_access, CqeSyndrome.REMOTE_ACCESS_ERR, 0x88, (0, 0)),
    (invalid_request, CqeSyndrome.REMOTE_INVAL_REQ_ERR, 0x8A, (0, 0)),
    (remote_operation, CqeSyndrome.REMOTE_OP_ERR, 0x89, (0, 0)),
    (not_ready, CqeSyndrome.RNR_RETRY_EXC_ERR, 0x87, (0, 0)),
    (silence, CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, 0x81, (0, 0)),
]


@pytest.mark.parametrize(
    ("cause", "syndrome", "vendor", "hardware"),
    CAUSES,
    ids=[cause.__name__ for cause, *_ in CAUSES],
)
def test_requester(channel, local, remote, clock, cause, syndrome, vendor, hardware):
    """What follows in the queue is flushed with a value that tells of a failure."""
    cause(channel, local, remote)
    channel.write(remote, local.sge(0, 8))
    channel.settle()
    for _ in range(8):
        clock.advance(LONG_NS)
        channel.settle()
    assert errors(channel.sender.cq) == [(syndrome, vendor, hardware), FLUSHED]


def test_requester_of_another_domain(channel, local, remote):
    node = channel.left
    other = node.region(4096, pd=node.driver.alloc_pd())
    channel.write(remote, other.sge(0, 8))
    channel.settle()
    assert errors(channel.sender.cq) == [(CqeSyndrome.LOCAL_PROT_ERR, 0x52, (0, 147))]


@pytest.mark.parametrize(
    ("cause", "syndrome", "vendor", "hardware"),
    [
        (remote_operation, CqeSyndrome.LOCAL_PROT_ERR, 0x32, (0, 146)),
        (receive_bounds, CqeSyndrome.LOCAL_PROT_ERR, 0x33, (0, 157)),
        (invalid_request, CqeSyndrome.LOCAL_LENGTH_ERR, 0xD5, (0, 0)),
    ],
)
def test_responder(channel, local, remote, clock, cause, syndrome, vendor, hardware):
    cause(channel, local, remote)
    channel.post_recv(local.sge(0, 8))
    channel.settle()
    assert errors(channel.recv_cq) == [(syndrome, vendor, hardware), FLUSHED]


def test_flushed_by_command(channel, local, remote, clock):
    channel.receiver.to_error()
    channel.post_recv(local.sge(0, 8))
    channel.sender.to_error()
    channel.write(remote, local.sge(0, 8))
    channel.settle()
    clock.advance(SECOND_NS)
    channel.settle()
    flushed = [(CqeSyndrome.WR_FLUSH_ERR, 0xF5, (0, 0))]
    assert (errors(channel.sender.cq), errors(channel.recv_cq)) == (flushed, flushed)


# -- QUERY_QP's extension


def told(end, node):
    """(syndrome, vendor syndrome, type, hardware syndrome): what mlx5_ib_qp_err_syndrome reads."""
    answer = node.driver.must(Op.QUERY_QP, qpn=end.qpn, qpc_ext=1, out_extra=26 * 8)
    words = b"".join(word.to_bytes(8, "big") for word in answer.pas)
    found = qpc_ext.view(words[: qpc_ext.size]).error_syndrome
    hardware = found.hw_syndrome_type, found.hw_error_syndrome
    return found.syndrome, found.vendor_error_syndrome, *hardware


class TestQuery:
    def test_bad_key_at_the_responder(self, channel, local, remote):
        """Real cards' "unrecognized status (0x22 0x0 0x95)"; the requester has its completion's."""
        assert told(channel.receiver, channel.right) == (0, 0, 0, 0)
        remote_access(channel, local, remote)
        channel.settle()
        assert told(channel.receiver, channel.right) == (EVENT_SYNDROME, 0x22, 0, 0x95)
        assert told(channel.sender, channel.left) == (CqeSyndrome.REMOTE_ACCESS_ERR, 0x88, 0, 0)

    def test_range_at_the_responder(self, channel, local, remote):
        channel.write((remote[0], remote[1] + 4092), local.sge(0, 8))
        channel.settle()
        assert told(channel.receiver, channel.right) == (EVENT_SYNDROME, 0x23, 0, 157)

    def test_receive_request(self, channel, local, remote):
        remote_operation(channel, local, remote)
        channel.settle()
        assert told(channel.receiver, channel.right) == (CqeSyndrome.LOCAL_PROT_ERR, 0x32, 0, 146)

    def test_first_error_stays_until_the_queue_pair_is_reset(self, channel, local, remote):
        remote_access(channel, local, remote)
        channel.settle()
        channel.receiver.to_error()
        assert told(channel.receiver, channel.right)[1] == 0x22
        channel.receiver.to_reset()
        assert told(channel.receiver, channel.right) == (0, 0, 0, 0)

    def test_pages_stand_behind_the_extension(self, channel):
        must = channel.right.driver.must
        qpn = channel.receiver.qpn
        pages = must(Op.QUERY_QP, qpn=qpn, out_extra=2 * 8).pas
        behind = must(Op.QUERY_QP, qpn=qpn, qpc_ext=1, out_extra=26 * 8).pas
        assert list(behind)[24:] == list(pages)
        assert len(must(Op.QUERY_QP, qpn=qpn, qpc_ext=1, out_extra=3 * 8).pas) == 3

    def test_not_offered(self, channel, local, remote):
        channel.receiver.node.hca.caps.general.qp_error_syndrome = 0
        remote_access(channel, local, remote)
        channel.settle()
        assert told(channel.receiver, channel.right) == (0, 0, 0, 0)

"""Streams of a DC initiator."""

from emu.device.objects.queues.streams import DciStreams
from layouts.objects.qp import qpc


def test_an_initiator_without_streams_has_none():
    """Whatever else its context says of them."""
    assert DciStreams.of(qpc.new(log_num_dci_errored_streams=3)) is None
    ctx = qpc.new(log_num_dci_stream_channels=4, log_num_dci_errored_streams=3)
    assert DciStreams.of(ctx).limit == 8

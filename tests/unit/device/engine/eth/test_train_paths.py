"""Where packets of a RoCE message may leave as a train, and why each of them leaves alone."""

import pytest

from emu.device.port.eth.roce.route import address_of, parts_of
from emu.driver.ethernet.flows import Flows
from emu.driver.nodes.roce import on_a_cable
from emu.driver.verbs.channels import Channel
from layouts.enums.flow_table import FlowTableType
from layouts.enums.qp import QpType

MTU = 1024


class Path:
    """A queue pair's path to a peer in another process."""

    def __init__(self, clock):
        self.node, peer = on_a_cable(clock, takes_trains=True)
        self.hca = self.node.hca
        channel = Channel(QpType.RC, self.node, peer, mtu=3)
        qp = self.hca.qps.need(channel.sender.qpn)
        self.address = self.hca.link.route(qp.ctx.primary_address_path).address
        self.mtu = MTU
        self.mac = next(iter(self.hca.gids.macs))

    def train(self):
        return self.hca.wire.train_to(self.hca, self.address, self.mtu)

    def send(self, mac):
        self.hca.wire.transmit(self.hca, mac + self.mac + bytes(60))


@pytest.fixture
def path(clock):
    return Path(clock)


def no_address(path):
    path.address = 0


def too_long(path):
    path.mtu = path.hca.link.max_payload + 1


def rules(path):
    flows = Flows(path.node.driver, FlowTableType.RDMA_TX)
    flows.set_root(flows.table(0))


def rate(path):
    path.hca.rates.roce = object()


def own(path):
    index, _, gid = parts_of(path.address)
    path.address = address_of(index, path.mac, gid)


def frame_to_own(path):
    path.send(path.mac)


def frame_to_peer(path):
    path.hca.switch.uplink.room = 0
    path.send(parts_of(path.address)[1])


def test_a_train_to_the_peer(path):
    assert path.train() is not None


@pytest.mark.parametrize(
    "why", [no_address, too_long, rules, rate, own, frame_to_own, frame_to_peer]
)
def test_each_packet_alone(path, why):
    why(path)
    assert path.train() is None

"""RoCE of a LAG's master whose ports flow tables choose."""

import pytest
from helpers.device.boards import Bonded
from helpers.device.port_selection import BY_TABLES, MODEL, PortTables

from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op
from layouts.enums.lag import ModifyLag
from layouts.enums.qp import QpType

TEXT = bytes(range(256)) * 20
CHANNELS = 12


class Hashing(Bonded):
    """A bond that hashes, with RoCE v2 to its peer."""

    def __init__(self, clock, active=0):
        super().__init__(clock, model=MODEL)
        caps = self.master.hca.caps.port_selection
        caps.port_select_flow_table_bypass = int(active > 0)
        ids = [function.hca.vhca.number for function in self.functions[:2]]
        self.tables = PortTables(self.master.driver, ids)
        must = self.master.driver.must
        must(Op.CREATE_LAG, ctx=BY_TABLES | {"active_port": active})
        must(Op.CREATE_VPORT_LAG)

    def sends(self, channel):
        """How many packets each port has sent for a write, which arrives."""
        before = self.passed()
        source, target = channel.left.region(len(TEXT)), channel.right.region(len(TEXT))
        source.write(TEXT)
        channel.write((target.key, target.va), source.sge())
        channel.settle()
        assert target.read(0, len(TEXT)) == TEXT
        return [now[0] - then[0] for now, then in zip(self.passed(), before)]


@pytest.fixture
def bonded(clock):
    return Hashing(clock)


def test_the_tables_choose_for_each_connection(bonded):
    """Whatever the affinity says: without the bypass it does not count."""
    ways = []
    for number in range(CHANNELS):
        channel = Channel(QpType.RC, bonded.master, bonded.peer)
        bonded.give_affinity(channel.sender, 1 + number % 2)
        sent = bonded.sends(channel)
        assert 0 in sent, "packets of one connection stay in order"
        ways.append(sent[1] > 0)
        assert bonded.sends(channel)[0 if ways[-1] else 1] == 0
    assert len(ways) == CHANNELS


@pytest.mark.parametrize("port", [1, 2])
def test_entries_that_change_move_traffic(bonded, port):
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    bonded.tables.lead(port, port)
    sent = bonded.sends(channel)
    assert (sent[port - 1] > 0, sent[2 - port]) == (True, 0)


def test_with_the_bypass_an_affinity_counts_while_its_port_is_active(clock):
    bonded = Hashing(clock, active=3)
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    bonded.tables.lead(1, 1)
    bonded.give_affinity(channel.sender, 2)
    assert bonded.sends(channel)[0] == 0
    bonded.master.driver.must(
        Op.MODIFY_LAG, field_select=ModifyLag.ACTIVE_PORT, ctx={"active_port": 1}
    )
    assert bonded.sends(channel)[1] == 0


def test_datagrams_too(bonded):
    channel = Channel(QpType.UD, bonded.master, bonded.peer)
    for port in (1, 2):
        bonded.tables.lead(port, port)
        before = bonded.passed()
        source, target = channel.left.region(64), channel.right.region(200)
        channel.post_recv(target.sge())
        channel.send(source.sge())
        channel.settle()
        assert len(channel.received()) == 1
        sent = [now[0] - then[0] for now, then in zip(bonded.passed(), before)]
        assert sent[port - 1] == 1

"""One direction of a link: what becomes of its packets, and when."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from emu.device.faults.link import PlannedLink
from emu.device.objects.ledger import Ledger
from emu.device.rounds.sizes import PACKETS_PER_POLL
from emu.driver.world.clock import HandClock
from emu.server.net.link import direction
from emu.server.net.link.direction import ACCOUNT, LinkDirection
from emu.server.net.link.netem import NetemRandom

MS = 1_000_000
MANY = 8_000


@dataclass(frozen=True)
class LinkPacket:
    arrived: list
    clock: HandClock
    number: int
    octets: int = 1000
    mark: bool = False
    damage: bool = False
    is_capable: bool = True

    def keep(self):
        return self

    def marked(self):
        return replace(self, mark=True) if self.is_capable else None

    def corrupted(self, draw):
        return replace(self, damage=True)

    def go_on(self):
        self.arrived.append((self.clock.ns, self))


class World:
    def __init__(self, seed=0, **properties):
        self.clock = HandClock()
        self.start = self.clock.ns
        self.ledger = Ledger(1 << 30)
        link = PlannedLink.model_validate(properties)
        self.link = LinkDirection("function 0 tx", self.clock, lambda: self.ledger, link, seed)
        self.arrived = []
        self.sent = 0

    def send(self, count=1, **about):
        for _ in range(count):
            self.link.take(LinkPacket(self.arrived, self.clock, self.sent, **about))
            self.sent += 1

    def settle(self):
        while self.clock.waiting():
            self.clock.advance(MS)

    def run(self, count, **about):
        """Send one packet after another, with time in between; their numbers as they arrive."""
        for _ in range(count):
            self.send(**about)
            self.settle()
        return self.numbers

    @property
    def numbers(self):
        return [packet.number for _, packet in self.arrived]

    @property
    def times(self):
        return [at - self.start for at, _ in self.arrived]


def test_nothing_set_changes_nothing_and_nobody_gets_a_packet_within_the_call():
    world = World()
    world.send(3)
    assert world.arrived == []
    world.clock.advance(0)
    assert world.numbers == [0, 1, 2]


def test_delay():
    world = World(delay="10ms")
    world.send(2)
    world.clock.advance(10 * MS - 1)
    assert world.arrived == []
    world.clock.advance(1)
    assert world.times == [10 * MS] * 2


def test_jitter_is_within_its_bounds_and_lets_packets_overtake():
    world = World(delay="10ms", jitter="2ms")
    world.send(500)
    world.settle()
    assert 8 * MS <= min(world.times) < 8.2 * MS
    assert 11.8 * MS < max(world.times) <= 12 * MS
    assert world.numbers != sorted(world.numbers)
    assert sorted(world.numbers) == [*range(500)]


def test_rate_sends_one_after_the_other():
    world = World(rate="8mbit")
    world.send(3)  # a millisecond each
    world.settle()
    assert world.times == [MS, 2 * MS, 3 * MS]
    world = World(rate="8mbit", delay="5ms")
    world.send(2)
    world.settle()
    assert world.times == [6 * MS, 7 * MS]


def test_loss_is_of_about_so_many():
    world = World(loss=3)
    arrived = world.run(MANY)
    assert 0.025 < 1 - len(arrived) / MANY < 0.035
    assert world.link.counts == {"packets": MANY, "lost": MANY - len(arrived)}


def runs(numbers):
    """How long the gaps between numbers are."""
    gaps = (after - before - 1 for before, after in pairwise(numbers))
    return Counter(gap for gap in gaps if gap)


def test_gilbert_elliott_loses_in_bursts():
    world = World(gemodel=[1, 25])
    gaps = runs(world.run(MANY))
    lost = sum(length * count for length, count in gaps.items())
    assert 0.03 < lost / MANY < 0.05  # p / (p + r) = 3.8 %
    assert 3.3 < lost / gaps.total() < 4.7  # 1 / r = 4


def test_gilbert_elliott_has_defaults():
    assert World(gemodel=[100]).run(50) == []  # bad at once, and never good again
    lossy = World(gemodel=[0, 100, 100, 50])  # always good, and half is lost all the same
    assert 400 < len(lossy.run(1000)) < 600


def test_duplicates_and_corruption():
    world = World(duplicate=10, corrupt=20)
    world.run(1000)
    assert 1060 < len(world.arrived) < 1140
    assert world.link.counts["duplicated"] == len(world.arrived) - 1000
    damaged = sum(packet.damage for _, packet in world.arrived)
    assert 150 < damaged < 280
    assert world.link.counts["corrupted"] == damaged


def test_reordered_packets_overtake():
    world = World(delay="10ms", reorder=100, gap=5)
    world.send(20)
    world.settle()
    assert world.numbers[:4] == [4, 9, 14, 19]
    assert world.times[:5] == [0] * 4 + [10 * MS]


def test_marks_instead_of_loss_where_the_sender_understands_them():
    world = World(loss=100, ecn=True)
    world.send()
    world.send(is_capable=False)
    world.settle()
    assert [(packet.number, packet.mark) for _, packet in world.arrived] == [(0, True)]
    assert world.link.counts == {"packets": 2, "marked": 1, "lost": 1}


def test_marks():
    world = World(mark=30)
    world.run(1000)
    marked = sum(packet.mark for _, packet in world.arrived)
    assert 250 < marked < 350
    assert len(world.arrived) == 1000


def test_packets_that_wait_too_long_for_the_line_are_marked():
    world = World(rate="8mbit", ce_threshold="3ms")
    world.send(10)
    world.settle()
    assert [packet.mark for _, packet in world.arrived] == [False] * 4 + [True] * 6


def test_what_is_over_the_limit_is_lost():
    world = World(delay="10ms", limit=10)
    world.send(14)
    world.settle()
    assert world.numbers == [*range(10)]
    assert world.link.counts["over the limit"] == 4


def test_bytes_are_bounded_and_on_the_ledger(monkeypatch):
    monkeypatch.setattr(direction, "MAX_BYTES", 10_000)
    world = World(delay="10ms")
    world.send(20)
    assert 5 < world.link.about()["in_flight"] < 10
    assert world.ledger.accounts[ACCOUNT] == world.link.about()["bytes"] <= 10_000
    world.settle()
    assert not world.ledger.used


def test_bytes_go_back_to_the_ledger_that_they_came_from():
    world = World(delay="10ms")
    before = world.ledger
    world.send()
    world.ledger = Ledger(1 << 30)
    world.settle()
    assert before.used == world.ledger.used == 0


def test_senders_that_can_wait_do_so_from_half_of_the_limit():
    world = World(rate="8mbit", limit=10)
    woken = []
    world.link.when_ready(lambda: woken.append("at once"))
    assert woken == ["at once"]
    world.send(5)
    assert world.link.is_pausing
    world.link.when_ready(lambda: woken.append("later"))
    assert woken == ["at once"]
    world.clock.advance(MS)
    assert woken == ["at once", "later"]


def test_the_same_seed_is_the_same_fate_whatever_the_times():
    one, two = (World(seed=3, loss=20, delay="1ms", jitter="1ms") for _ in range(2))
    one.run(300)
    two.send(300)
    two.settle()
    assert one.numbers == sorted(two.numbers)
    other = World(seed=4, loss=20)
    assert other.run(300) != one.numbers


def test_a_change_holds_from_the_next_packet_on():
    world = World(delay="10ms")
    world.send(2)
    world.link.change(PlannedLink(), 0)
    world.send()
    world.settle()
    assert world.numbers == [2, 0, 1]
    assert world.times == [0, 10 * MS, 10 * MS]


def test_a_change_does_not_begin_the_dice_anew():
    plain, changed = World(seed=1, loss=50), World(seed=1, loss=50)
    plain.run(200)
    changed.run(100)
    changed.link.change(PlannedLink(loss=50, duplicate=0.0), 1)
    changed.run(100)
    assert plain.numbers == changed.numbers


def test_another_seed_holds_from_the_next_packet_on():
    first, second, changed = (World(seed=seed, loss=50) for seed in (1, 2, 1))
    first.run(200)
    second.run(200)
    changed.run(100)
    changed.link.change(changed.link.link, 2)
    changed.run(100)
    after = [number for number in second.numbers if number >= 100]
    assert changed.numbers == [number for number in first.numbers if number < 100] + after


def test_fates_of_another_link_are_others():
    link = PlannedLink(loss=50)
    one, two = NetemRandom("function 0 tx", 1), NetemRandom("function 0 rx", 1)
    fates = [(one.decide(link).lost, two.decide(link).lost) for _ in range(100)]
    assert 20 < sum(a != b for a, b in fates) < 80


def test_a_packet_that_raises_does_not_stop_the_others(caplog):
    world = World()

    class Broken(LinkPacket):
        def go_on(self):
            raise RuntimeError

    world.link.take(Broken([], world.clock, 0))
    world.send()
    world.settle()
    assert world.numbers == [0]
    assert "a packet of a link is lost" in caplog.text
    caplog.clear()


def test_a_round_carries_a_bounded_number(monkeypatch):
    world, sizes = World(), []
    call_later = world.clock.call_later

    def counted(delay_ns, callback):
        def run():
            before = len(world.arrived)
            callback()
            sizes.append(len(world.arrived) - before)

        return call_later(delay_ns, run)

    monkeypatch.setattr(world.clock, "call_later", counted)
    world.send(900)
    world.settle()
    assert sum(sizes) == 900
    assert max(sizes) == PACKETS_PER_POLL

"""The parts of a function's state by themselves: scheduler, events, completions, cached views."""

from types import SimpleNamespace

import pytest

from emu.device.state.completions import Completions
from emu.device.state.events import Events
from emu.device.state.parts.scheduler import Scheduler
from emu.device.state.probes import Probes
from emu.device.state.view_cache import ViewCache
from layouts.enums.eqe import EventType


class TestScheduler:
    @pytest.fixture
    def woken(self):
        return []

    @pytest.fixture
    def scheduler(self, woken):
        scheduler = Scheduler()
        scheduler.is_awake = False
        scheduler.on_work = lambda: woken.append(True)
        return scheduler

    def test_a_queue_is_listed_once_and_wakes_once(self, scheduler, woken):
        one, two = (SimpleNamespace(is_ready=False) for _ in range(2))
        for queue in (one, one, two):
            scheduler.schedule(queue)
        assert ([*scheduler.ready], len(woken)) == ([one, two], 1)

    def test_a_function_that_is_awake_is_not_woken(self, scheduler, woken):
        scheduler.wake()
        scheduler.wake()
        assert len(woken) == 1

    def test_nothing_is_left_when_all_stops(self, scheduler):
        scheduler.add_broken(SimpleNamespace())
        scheduler.schedule(SimpleNamespace(is_ready=False))
        assert scheduler.has_broken_cqs
        scheduler.clear()
        assert not scheduler.has_broken_cqs
        assert not any((scheduler.broken_cqs, scheduler.ready))


class TestEvents:
    @pytest.fixture
    def events(self):
        return Events(None, None, Probes(None), None)

    @pytest.mark.parametrize("ends", ["first", "second"])
    def test_the_last_subscriber_gets_the_event(self, events, ends):
        first, second = (SimpleNamespace(events=1 << EventType.CMD) for _ in range(2))
        events.subscribe(first)
        events.subscribe(second)
        assert events.subscribers == {EventType.CMD: second}
        events.unsubscribe(first if ends == "first" else second)
        assert events.subscribers == ({EventType.CMD: second} if ends == "first" else {})

    def test_completions_have_no_subscriber(self, events):
        events.subscribe(SimpleNamespace(events=1 << EventType.COMP))
        assert not events.subscribers


def test_held_packets_are_dropped_when_all_stops():
    events = Events(None, None, Probes(None), None)
    cqes = Completions(None, events, Scheduler(), None, None, None)
    held = SimpleNamespace(waiting=[b"entry"])
    cqes.holding.append(held)
    cqes.forget_held()
    assert not any((cqes.holding, held.waiting))


def test_cached_views_are_dropped_at_the_keys_that_have_them():
    dropped = []
    key = SimpleNamespace(forget_views=lambda: dropped.append(True))
    cache = ViewCache(None, Probes(None), SimpleNamespace(mkeys={1: key, 2: key}))
    cache.keys |= {1, 3}  # 3 has been destroyed
    cache.count = 5
    cache.forget()
    assert (len(dropped), cache.keys, cache.count) == (1, set(), 0)

"""Send queues that are told of a changed rate, some in each round."""

from collections import Counter

import pytest

from emu.device.engine.eth import pacing
from emu.device.models import MODELS
from emu.device.rounds.budget import POLL_BUDGET
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from layouts.enums.cmd import Op


@pytest.fixture
def model():
    return MODELS["connectx6dx"]


@pytest.fixture
def make(node, driver):
    td = alloc_td(driver)
    return lambda: SendQueue(node, tisn=create_tis(driver, td), log_size=9)


@pytest.fixture
def table(driver):
    def entry(index, kbps):
        return driver.must(
            Op.SET_PP_RATE_LIMIT, rate_limit_index=index, ctx={"rate_limit": kbps}
        ).status

    return entry


@pytest.mark.pure("counts what a round does")
class TestManyQueues:
    """Each round tells some of the queues of a changed rate."""

    @pytest.fixture
    def rounds(self, monkeypatch, hca):
        """By round: the handles of the queues that were told."""
        found, apply = {}, pacing.apply

        def count(node, sq):
            found.setdefault(node.budget.number, []).append(sq.handle)
            apply(node, sq)

        monkeypatch.setattr(pacing, "STEPS_PER_REPACING", POLL_BUDGET // 4)
        monkeypatch.setattr(pacing, "apply", count)
        return found

    def test_in_portions(self, make, table, rounds):
        handles = [make().sqn for _ in range(20)]
        rounds.clear()
        table(1, 1000)
        assert [handle for told in rounds.values() for handle in told] == handles
        assert max(len(told) for told in rounds.values()) <= 4

    def test_a_change_meanwhile(self, make, table, rounds, hca):
        """Whoever was told before it is told again."""
        handles = [make().sqn for _ in range(8)]
        rounds.clear()
        pacing.apply_to_all(hca)
        pacing.apply_to_all(hca)
        assert hca.rates.repacing
        table(1, 1000)
        told = Counter(handle for told in rounds.values() for handle in told)
        assert set(told) == set(handles)
        assert set(told.values()) <= {2, 3}

    def test_a_queue_that_is_gone(self, make, rounds, hca, node):
        queues = [make() for _ in range(8)]
        rounds.clear()
        pacing.apply_to_all(hca)
        hca.sqs.remove(queues[-1].sqn)
        node.settle()
        assert [handle for told in rounds.values() for handle in told] == [
            sq.sqn for sq in queues[:-1]
        ]

    def test_a_teardown(self, make, rounds, hca, node):
        for _ in range(8):
            make()
        pacing.apply_to_all(hca)
        assert hca.rates.repacing
        node.driver.must(Op.TEARDOWN_HCA)
        assert not hca.rates.repacing
        before = sum(len(told) for told in rounds.values())
        node.settle()
        assert sum(len(told) for told in rounds.values()) == before

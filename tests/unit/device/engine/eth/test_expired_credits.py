"""Credits that expire: all functions of an adapter poll again, at a cost that grows with them."""

from types import SimpleNamespace

import pytest
from helpers.pure import pure_only

from emu.device.engine.eth.rx_credits import expire_credits
from emu.device.rounds.budget import Budget
from emu.device.rounds.costs import LOG_EXPIRED_PER_STEP

pure_only("functions and adapters are fakes")


@pytest.mark.parametrize("count", [0, 1, 3 << LOG_EXPIRED_PER_STEP])
def test_each_function_of_an_adapter_polls_again(count):
    budget = Budget()
    nodes = [
        SimpleNamespace(link_partner=SimpleNamespace(credit=9), budget=budget) for _ in range(count)
    ]
    expire_credits(SimpleNamespace(nodes=lambda: iter(nodes)))
    assert [node.link_partner.credit for node in nodes] == [0] * count
    assert budget.steps == (1 + (count >> LOG_EXPIRED_PER_STEP) if count else 0)

"""The library of plans against the stock driver: each does what it says."""

from __future__ import annotations

import contextlib

import pytest
from helpers.guest.fault_plans import PLANS, Bench, carry_out, problems

from emu.server.service.plan_files import read_plans

pytestmark = [pytest.mark.guest, pytest.mark.timeout(600)]


def _parameters():
    """Plans of one model after the other, so that they share a guest; long ones have a marker."""
    plans = read_plans(PLANS)
    for name, plan in sorted(plans.items(), key=lambda item: (item[1].expect.model, item[0])):
        yield pytest.param(
            name, plan, id=name, marks=() if plan.expect.quick else pytest.mark.faults
        )


@pytest.fixture(scope="module")
def benches(lab):
    """Guests by suite and model."""
    made = {}
    with contextlib.ExitStack() as stack:

        def get(suite, model):
            if (suite, model) not in made:
                made[suite, model] = Bench(suite, model)
                stack.callback(made[suite, model].close)
            return made[suite, model]

        yield get


@pytest.mark.suite("trixie")
@pytest.mark.parametrize(("name", "plan"), list(_parameters()))
def test_plan_does_what_it_says(benches, suite, name, plan):
    text = (PLANS / f"{name}.toml").read_text()
    outcome = carry_out(plan, text, benches(suite, plan.expect.model))
    assert problems(plan, outcome) == [], "\n".join(outcome.log[-40:])

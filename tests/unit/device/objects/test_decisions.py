"""Cached decisions of all flow domains of a function."""

import pytest

from emu.device.objects.eth.flow.domain import CACHED, DECISIONS, MAX_HELD, Decision, FlowDomain
from emu.device.objects.eth.parser import PARSER
from emu.device.objects.ledger import Ledger

DECISION = Decision((), (), allowed=True, switched=False, missed=False)


@pytest.mark.hostile
def test_decisions_of_many_domains_are_bounded():
    """A switch of many vPorts drops those of all its ACLs in one command."""
    ledger = Ledger(1 << 40)
    domains = [FlowDomain(ledger) for _ in range(32)]
    for domain in domains:
        for key in range(CACHED):
            domain.keep(key, DECISION)
    assert MAX_HELD - 1024 < ledger.held(DECISIONS) <= MAX_HELD
    assert not domains[-1].decisions
    for domain in domains:
        domain.parse_by(PARSER)
    assert not ledger.used
    domains[-1].keep(1, DECISION)
    assert domains[-1].decisions

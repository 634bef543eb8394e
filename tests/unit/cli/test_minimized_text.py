"""The plan that ``minimize`` writes explains what differs from the recorded one."""

import json

import pytest

from emu.cli.commands.trials.minimize import plan_text
from emu.device.faults.parser import load
from emu.device.faults.record import read

RULE = {"name": "a", "point": "cmd", "action": "fail"}
FIRED = {"function": 0, "rule": "a", "n": 3, "point": "cmd", "action": "fail", "event": {}}
HEAD = {"record": 2, "versions": {}, "seed": 0, "devices": [], "run": {}}


@pytest.mark.parametrize("commands", [0, 40])
def test_a_rule_that_starts_later_is_explained(commands):
    lines = [HEAD | {"plan": {"rule": []}}, {"added": RULE, "commands": [commands]}, FIRED]
    text = plan_text(read("".join(json.dumps(line) + "\n" for line in lines)), [(0, "a", 3)])
    assert ("# commands, as in the record; this replaces the `when`" in text) == bool(commands)
    (rule,) = load(text).rule
    assert (rule.after, rule.index) == (commands, [3])

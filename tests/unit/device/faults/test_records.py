"""Records of faults, the plans that replay them, and the search for a smallest one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.faults import record
from emu.device.faults.parser import dump, load
from emu.device.faults.plan import Plan
from emu.device.faults.record import Fired, RecordError

PLAN = load(
    '[[rule]]\nname="a"\npoint="irq"\naction="drop"\nprobability=30\n'
    '[[rule]]\nname="b"\npoint="eqe"\naction="drop"\n'
)
HEAD = record.line(record.head(PLAN, {"mlx5emu": "1"}, ["connectx6"], {"suite": "trixie"}))


def text(*fired):
    return HEAD + "".join(one.to_line() for one in fired)


def test_a_record_and_its_replay():
    read = record.read(text(Fired(0, "a", 4, "irq", "drop"), Fired(0, "a", 9, "irq", "drop")))
    assert read.plan == PLAN
    assert read.head["devices"] == ["connectx6"]
    (rule,) = read.replayed().rule
    assert (rule.name, rule.index, rule.probability) == ("a", [4, 9], 100)
    (rule,) = read.replayed([(0, "a", 9)]).rule
    assert rule.index == [9]
    assert read.replayed([]).rule == []


def test_rules_of_two_functions_stay_apart():
    fired = Fired(0, "b", 1, "eqe", "drop"), Fired(1, "b", 2, "eqe", "drop")
    one, two = record.read(text(*fired)).replayed().rule
    assert (one.function, one.index, two.function, two.index) == (0, [1], 1, [2])
    assert one.name != two.name


def test_what_had_no_effect_has_not_fired():
    """An event is told before its action, and taken back when that changes nothing."""
    why = "no event queue"
    read = record.read(
        text(
            Fired(0, "a", 4, "irq", "drop"),
            Fired(0, "a", 4, "irq", "drop", {}, why),
            Fired(0, "a", 5, "irq", "drop"),
            Fired(0, "b", 1, "eqe", "drop", {}, why),
        )
    )
    assert [(one.rule, one.n) for one in read.fired] == [("a", 5)]
    assert [(one.rule, one.n, one.without_effect) for one in read.without_effect] == [
        ("a", 4, why), ("b", 1, why),
    ]  # fmt: skip
    assert [rule.index for rule in read.replayed().rule] == [[5]]


def test_the_seed_of_a_plan_that_was_loaded_is_the_replays():
    read = record.read(text() + record.line({"seed": 77, "commands": [1]}))
    assert read.replayed().seed == 77
    with pytest.raises(RecordError, match="seed is not a 64-bit number"):
        record.read(text() + record.line({"seed": -1, "commands": [1]}))


def test_when_a_fault_fired_and_a_record_of_before_that_was_noted():
    timed = Fired(0, "a", 4, "irq", "drop", seconds=1.25)
    assert json.loads(timed.to_line())["seconds"] == 1.25
    (read,) = record.read(text(timed)).fired
    assert (read, read.seconds) == (timed, 1.25)
    old = record.read(broken_head(record=1) + Fired(0, "a", 4, "irq", "drop").to_line())
    assert [one.seconds for one in old.fired] == [None]
    assert old.replayed() == record.read(text(timed)).replayed()


@pytest.mark.hostile
@pytest.mark.parametrize("seconds", [-1, "1", True, [], {}, 1e300])
@pytest.mark.parametrize("kind", ["fired", "seed"])
def test_seconds_that_are_none(seconds, kind):
    line = FIRED if kind == "fired" else {"seed": 7, "commands": [1]}
    with pytest.raises(RecordError, match="record:2: bad seconds"):
        record.read(HEAD + record.line(line | {"seconds": seconds}))


def test_a_cut_last_line_is_left_out():
    read = record.read(text(Fired(0, "a", 4, "irq", "drop")) + '{"function":0,"ru')
    assert len(read.fired) == 1


def came(commands, **rule):
    rule = {"name": "c", "point": "irq", "action": "drop"} | rule
    return record.line({"added": rule, "commands": commands})


def went(name, commands):
    return record.line({"removed": name, "commands": commands})


def test_rules_that_came_and_went_are_replayed_at_the_same_commands():
    whole = text() + came([10]) + Fired(0, "c", 2, "irq", "drop").to_line() + went("c", [20])
    (rule,) = record.read(whole).replayed().rule
    assert (rule.name, rule.index, rule.after, rule.until) == ("c", [2], 10, 20)
    whole = text(Fired(0, "a", 1, "irq", "drop")) + went("a", [7])
    (rule,) = record.read(whole).replayed().rule
    assert (rule.name, rule.after, rule.until) == ("a", 0, 7)


def test_the_second_rule_of_a_name_is_another_one():
    one = Fired(0, "c", 1, "irq", "drop").to_line()
    whole = text() + came([1]) + one + went("c", [2]) + came([3], probability=50) + one
    first, second = record.read(whole).replayed().rule
    assert (first.name, first.after, first.until) == ("c", 1, 2)
    assert (second.name, second.after, second.until) == ("c~2", 3, None)


def test_a_rule_that_came_at_two_functions_has_the_commands_of_each():
    fired = "".join(Fired(number, "c", 1, "irq", "drop").to_line() for number in (0, 1))
    one, two = record.read(text() + came([5, 8]) + fired).replayed().rule
    assert (one.function, one.after, two.function, two.after) == (0, 5, 1, 8)


@pytest.mark.parametrize(
    "broken", ["", "x\n", "{}\n", '{"record":3}\n', '{"record":2,"plan":{"rule":[{}]}}\n',
               HEAD + "[]\n", HEAD + '{"rule":1}\n', HEAD + came([1], point="x"),
               HEAD + came([1], name="a"), HEAD + came([-1]), HEAD + came(None),
               HEAD + came([1], name=""), HEAD + went("a", 3)],
)  # fmt: skip
def test_what_is_no_record(broken):
    with pytest.raises(RecordError, match="record"):
        record.read(broken)


@pytest.mark.hostile
@given(st.text())
def test_any_text_is_a_record_or_a_record_error(anything):
    with pytest.raises(RecordError):
        record.read(anything)


def broken_head(**values):
    return record.line(json.loads(HEAD) | values)


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (broken_head(devices="connectx6"), "devices"),
        (broken_head(devices=[1]), "devices"),
        (broken_head(run=[]), "run is not an object"),
        (broken_head(run={"kernel": 5}), r"run\.kernel"),
        (broken_head(run={"modules": ["a"]}), r"run\.modules"),
        (broken_head(run={"suite": {}}), r"run\.suite"),
        (broken_head(run={"packages": "bc"}), r"run\.packages"),
        (broken_head(plan=None), "plan"),
        (broken_head(plan={"rule": "[" * 90}), "rule"),
        (HEAD.replace('"rule":[', '"rule":' + "[" * 900 + "]" * 900 + ',"x":['), "nested too deep"),
    ],
)
def test_heads_of_wrong_types(broken, why):
    with pytest.raises(RecordError, match=why):
        record.read(broken)


FIRED = {"function": 0, "rule": "a", "n": 1, "point": "irq", "action": "drop", "event": {}}


@pytest.mark.hostile
@pytest.mark.parametrize(
    "wrong",
    [
        {"function": -1}, {"function": 512}, {"function": True}, {"function": "0"},
        {"function": None}, {"rule": 1}, {"rule": None}, {"rule": ["a"]}, {"n": 0}, {"n": -1},
        {"n": 1.0}, {"n": 1 << 64}, {"point": 1}, {"action": []}, {"event": [1]}, {"event": "x"},
    ],
)  # fmt: skip
def test_faults_of_wrong_types(wrong):
    with pytest.raises(RecordError, match="record:2: not a fault"):
        record.read(HEAD + record.line(FIRED | wrong))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@pytest.mark.hostile
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(["devices", "run", "seed", "versions", "extra"], JSON)
    ),
    st.lists(
        st.fixed_dictionaries(
            {},
            optional=dict.fromkeys([*FIRED, "added", "removed", "commands"], JSON | st.just("a"))
            | {"function": st.integers(0, 3), "n": st.integers(1, 9), "rule": st.just("a")},
        ),
        max_size=4,
    ),
)
def test_any_values_are_a_record_that_can_be_replayed_or_none(head, lines):
    text = record.line(json.loads(HEAD) | head) + "".join(map(record.line, lines))
    try:
        read = record.read(text)
    except RecordError:
        return
    for rule in read.replayed().rule:
        assert load(dump(Plan(rule=[rule]))).rule == [rule]
    assert all(isinstance(device, str) for device in read.head.get("devices", []))


def test_a_replay_of_many_rules_at_two_functions():
    many = "".join(f'[[rule]]\nname="r{n}"\npoint="irq"\naction="drop"\n' for n in range(300))
    head = record.line(record.head(load(many), {}, [], {}))
    fired = [Fired(function, f"r{n}", 1, "irq", "drop") for n in range(300) for function in (0, 1)]
    read = record.read(head + "".join(one.to_line() for one in fired))
    assert len(read.replayed().rule) == 600


def test_a_plan_is_named_as_what_it_is():
    with pytest.raises(RecordError, match=r"^p\.toml: a fault plan, not a record: .*--faults"):
        record.read(dump(PLAN), "p.toml")
    for other in ("name = 1\n", "[[rule]]\n", "hello\n", "\n"):
        with pytest.raises(RecordError, match=r"^p\.toml:1: not a JSON object"):
            record.read(other, "p.toml")

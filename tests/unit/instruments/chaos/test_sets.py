"""Sets of failures: what a file says, its mistakes with their lines, the moments of a seed."""

from __future__ import annotations

import pytest

from emu.device.faults.parser import from_table
from emu.host import shipped
from emu.host.user_error import UserError
from emu.instruments.chaos.moments import chosen, lasting, moved
from emu.instruments.chaos.sets import read_sets, selected

ONE = '[[failure]]\nname = "one"\nabout = "One."\n'


def written(tmp_path, text, name="set.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def plan(*rules):
    return from_table({"rule": list(rules)})


def test_a_plan_by_its_name_by_a_path_and_in_the_set(tmp_path):
    written(tmp_path, '[[rule]]\npoint = "load"\naction = "link"\n', "own.toml")
    path = written(
        tmp_path,
        f'{ONE}plan = "@link-flaps"\nwhen = [2, 9]\n'
        '[[failure]]\nname = "two"\nabout = "Two."\nplan = "own.toml"\nonly = "ib"\n'
        '[[failure]]\nname = "three"\nabout = "Three."\nlink = [{ rate = "10mbit" }]\n',
    )
    one, two, three = read_sets([path])
    assert (one.plan.rule[0].action, one.when) == ("link", (2, 9))
    assert (two.plan.rule[0].action, two.only, two.when) == ("link", "ib", None)
    assert three.planned(7).link[0].rate == 10_000_000
    assert three.planned(7).seed == 7


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('plan = "@link-flap"', 1, "no plan @link-flap; near it: @link-flaps"),
        ('plan = "nope.toml"', 4, "no plan "),
        ("", 1, "a failure has a plan, or rules and links of its own"),
        ('plan = "@link-flaps"\nlink = [{ loss = 1 }]', 1, "a failure has a plan, or rules"),
        ('plan = "@link-flaps"\nwhen = [9, 2]', 1, "when: the first number is above the last"),
        ('plan = "@link-flaps"\nwhen = 0', 5, "at least 1 is needed"),
        ('plan = "@link-flaps"\nwhne = 3', 5, "no key 'whne' here; near it: when"),
        ('plan = "@wan"\nwhen = 3', 5, "the plan has only links"),
        ('plan = "@capability-few-queue-pairs"\nwhen = 3', 5, "while the driver loads"),
        ('rule = [{ point = "cqe", action = "fial" }]', 1, "near it: fail"),
        ('plan = "@link-flaps"\n' + ONE + 'plan = "@wan"', 5, "the name of another failure"),
    ],
)  # fmt: skip
def test_mistakes_have_a_line_and_a_reason(tmp_path, text, line, says):
    path = written(tmp_path, f"{ONE}{text}\n")
    with pytest.raises(UserError) as caught:
        read_sets([path])
    assert says in str(caught.value)
    assert int(str(caught.value).removeprefix(f"{path}:").partition(":")[0]) >= line


def test_two_sets_with_one_name(tmp_path):
    paths = [written(tmp_path, f'{ONE}plan = "@wan"\n', name) for name in ("a.toml", "b.toml")]
    with pytest.raises(UserError, match=r"b\.toml: 'one' is a failure of another set"):
        read_sets(paths)


def test_a_set_replaces_failures_of_its_base(tmp_path):
    more = '[[failure]]\nname = "two"\nabout = "Two."\nplan = "@wan"\n'
    written(tmp_path, f'{ONE}plan = "@wan"\n{more}', "base.toml")
    other = '[[failure]]\nname = "three"\nabout = "Three."\nplan = "@wan"\n'
    own = f'base = "base.toml"\n{other}{ONE}plan = "@link-flaps"\nwhen = 4\n'
    one, two, three = read_sets([written(tmp_path, own)])
    assert (one.name, one.plan.rule[0].action, one.when) == ("one", "link", (4, 4))
    assert [two.name, three.name] == ["two", "three"]


@pytest.mark.parametrize(
    ("base", "says"),
    [
        ("set.toml", "base: more than 3 bases in a row"),
        ("gone.toml", "no failure set "),
        ("@verb", "no failure set @verb; near it: @verbs"),
        ("bad.toml", "bad.toml:1: no failure, which is needed"),
    ],
)
def test_a_base_that_cannot_be_one(tmp_path, base, says):
    written(tmp_path, 'about = "None."\n', "bad.toml")
    path = written(tmp_path, f'about = "Own."\nbase = "{base}"\n{ONE}plan = "@wan"\n')
    with pytest.raises(UserError) as caught:
        read_sets([path])
    assert f"{path}:2: " in str(caught.value)
    assert says in str(caught.value)


def test_a_choice_of_failures(tmp_path):
    path = written(
        tmp_path,
        f'{ONE}plan = "@wan"\nonly = "eth"\n' + ONE.replace("one", "two") + 'plan = "@wan"',
    )
    failures = read_sets([path])
    assert [one.name for one in selected(failures, None, ())] == ["one", "two"]
    assert [one.name for one in selected(failures, "ib", ())] == ["two"]
    assert [one.name for one in selected(failures, "eth", ("o*",))] == ["one"]
    with pytest.raises(UserError, match="--only twoo matches no failure; near it: two"):
        selected(failures, None, ("twoo",))
    with pytest.raises(UserError, match="--only nope matches no failure; failures: one, two"):
        selected(failures, None, ("nope",))


def test_a_set_without_a_failure_of_the_link_layer_is_refused(tmp_path):
    """No run at all is no success."""
    path = written(tmp_path, f'{ONE}plan = "@link-flaps"\nonly = "ib"\n')
    with pytest.raises(UserError, match="--link eth: the sets have no failure"):
        selected(read_sets([path]), "eth", [])


def test_the_seed_chooses_the_moment():
    numbers = [chosen((3, 30), "one", seed) for seed in range(200)]
    assert numbers == [chosen((3, 30), "one", seed) for seed in range(200)]
    assert set(numbers) == set(range(3, 31))
    assert numbers != [chosen((3, 30), "two", seed) for seed in range(200)]
    assert chosen((5, 5), "one", 1) == 5


def test_a_plan_is_moved_to_its_moment():
    once, from_then, at_load = moved(
        plan(
            {"point": "cqe", "action": "fail", "index": 5},
            {"point": "pkt.rx", "action": "drop", "space": 20},
            {"point": "pkt.tx", "action": "drop", "probability": 5, "times": 3},
        ),
        12,
    ).rule
    assert once.index == [12]
    assert from_then.space == 11
    assert (at_load.space, at_load.times, at_load.probability) == (11, 3, 5)


def test_a_plan_that_would_begin_at_once_begins_at_a_work_request():
    begin, rest = moved(
        plan(
            {"point": "load", "action": "link", "ms": 100},
            {"point": "cmd", "action": "fail", "match": {"op": "CREATE_CQ"}},
        ),
        4,
    ).rule
    assert (begin.point, begin.index) == ("wqe", [4])
    assert begin.match["service"] == ["RC", "UC", "UD", "XRC", "DCI"]
    assert (rest.point, rest.space) == ("cmd", 0)


def test_how_long_faults_last():
    assert lasting(plan({"point": "load", "action": "link", "ms": 30_000})) == 30
    assert lasting(plan({"point": "cqe", "action": "drop"})) == 0


@pytest.mark.parametrize("name", shipped.examples("failure set"))
def test_the_sets_that_ship(name):
    failures = read_sets([shipped.example("failure set", name)])
    assert len(failures) == 34
    for one in failures:
        assert one.about.endswith(".")
        assert one.planned(3) == one.planned(3)
        assert (one.planned(3).rule != one.planned(4).rule) == (
            one.when is not None and chosen(one.when, one.name, 3) != chosen(one.when, one.name, 4)
        )

"""Links in plans and records: their words, their mistakes, and how a record replays them."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.device.faults import record
from emu.device.faults.link import PlannedLink, rate_text, time_text
from emu.device.faults.parser import PlanError, dump, link_from_table, load
from emu.device.faults.plan import Plan

WHOLE = """
seed = 4

[[link]]
function = 1
direction = "tx"
delay = "10ms"
jitter = "250us"
rate = "1.5gbit"
gemodel = ["1%", 10.0]
reorder = 25.0
gap = 5
duplicate = "0.1%"
corrupt = 1
mark = 2
ce_threshold = "50us"
limit = 100

[[link]]
loss = 1
ecn = true
after = 20
"""


def test_a_plan_with_links_and_back():
    plan = load(WHOLE)
    one, two = plan.link
    assert (one.delay, one.jitter, one.rate) == (10_000_000, 250_000, 1_500_000_000)
    assert (one.gemodel, one.duplicate, one.ce_threshold) == ([1, 10], 0.1, 50_000)
    assert (two.function, two.direction, two.after, two.properties()) == (
        None, None, 20, {"loss": 1, "ecn": True},
    )  # fmt: skip
    assert load(dump(plan)) == plan


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("delay", '"10"', "a number with a unit .* like '10ms' is needed, not '10'"),
        ("delay", "10", "a number with a unit"),
        ("delay", '"90s"', "at most 60s is needed, not '90s'"),
        ("rate", '"10ms"', "unit .bit, kbit"),
        ("rate", '"1bit"', "a rate from 1kbit to 1000gbit is needed, not '1bit'"),
        ("loss", "101", "at most 100 is needed, not 101"),
        ("loss", '"a%"', "a number is needed, not 'a'"),
        ("gemodel", "[]", "a length of at least 1"),
        ("direction", '"up"', "'up' is not one of tx, rx"),
        ("limit", "0", "at least 1 is needed, not 0"),
        ("los", "1", "no such key"),
    ],
)
def test_a_mistake_has_its_line_and_key(key, value, why):
    with pytest.raises(PlanError, match=why) as raised:
        load(f"[[link]]\nfunction = 0\n{key} = {value}", "p.toml")
    assert str(raised.value).startswith(f"p.toml:3: link[1].{key}: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('jitter = "1ms"', "jitter needs a delay"),
        ("reorder = 5", "reorder needs a delay"),
        ('delay = "1ms"\ngap = 5', "gap needs reorder"),
        ('ce_threshold = "1ms"', "ce_threshold needs a rate"),
        ("ecn = true", "ecn needs loss"),
        ("loss = 1\ngemodel = [1]", "exclude each other"),
    ],
)
def test_properties_that_do_not_fit(text, why):
    with pytest.raises(PlanError, match=why) as raised:
        load(f"[[link]]\n{text}", "p.toml")
    assert str(raised.value).startswith("p.toml:1: link[1]: ")


def test_one_link_of_a_client():
    assert link_from_table({"delay": "1ms"}).delay == 1_000_000
    assert link_from_table({}).is_clear
    with pytest.raises(PlanError, match=r"^link: loss: "):
        link_from_table({"loss": 1000})


@pytest.mark.parametrize(
    ("text", "says"),
    [(time_text(0), "0ns"), (time_text(1500), "1500ns"), (time_text(2_000_000_000), "2s"),
     (rate_text(1500), "1500bit"), (rate_text(10_000_000), "10mbit")],
)  # fmt: skip
def test_quantities(text, says):
    assert text == says


class TestExamples:
    PLANS = Path(__file__).parents[4] / "examples" / "links"

    def test_each_plan_is_one_and_is_listed(self):
        page = (self.PLANS / "README.md").read_text()
        paths = sorted(self.PLANS.glob("*.toml"))
        assert paths
        for path in paths:
            assert load(path.read_text(), path.name).link
            assert f"[{path.name}]({path.name})" in page

    def test_the_page_has_every_key(self):
        page = (self.PLANS / "README.md").read_text()
        rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", page, re.MULTILINE)
        assert {key for row in rows for key in re.findall("[a-z_]+", row)} == {
            *PlannedLink.model_fields
        }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["set", "function=0"], "a property"),
        (["clear", "loss=1"], "loss: only function and direction"),
        (["set", "loss"], "'loss' is not KEY=VALUE"),
    ],
)
def test_words_of_the_command_line_that_are_no_link(words, says):
    done = CliRunner().invoke(main, ["net", *words])
    assert done.exit_code
    assert says in done.output


def recorded(plan, *lines):
    head = record.line(record.head(plan, {}, ["connectx6"], {}))
    return record.read(head + "".join(map(record.line, lines)))


def test_a_record_replays_links_at_the_same_commands():
    plan = load('[[link]]\ndelay = "1ms"')
    told = recorded(
        plan, {"link": {"loss": 5.0, "direction": "tx"}, "commands": [10, 20]},
        {"link": {"function": 1}, "commands": [30, 40]},
    )  # fmt: skip
    assert told.replayed().link == [
        PlannedLink(delay="1ms"),
        PlannedLink(function=0, direction="tx", loss=5, after=10),
        PlannedLink(function=1, direction="tx", loss=5, after=20),
        PlannedLink(function=1, after=40),
    ]


@pytest.mark.parametrize("line", [{"link": {"loss": 200}, "commands": [1]}, {"link": {}}])
def test_a_record_with_a_bad_link_is_none(line):
    with pytest.raises(record.RecordError):
        recorded(Plan(), line)

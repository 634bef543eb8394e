"""The parts of status, objects and fault that are not about sockets; the page beside the plans."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from helpers.guest.fault_plans import PLANS

import firmware_cmds  # noqa: F401  # the commands whose fields plans name
from emu.cli.commands.functions.objects import _tree
from emu.cli.commands.functions.status import rates
from emu.cli.main import main
from emu.cli.shared.words import table_of
from emu.device.faults.schema import POINTS
from emu.device.faults.table import markdown
from emu.host.user_error import UserError
from emu.server.service.plan_files import read_plans


def test_page_beside_the_plans_is_of_now():
    """scripts/gen-faults-table writes it."""
    assert (PLANS / "README.md").read_text() == markdown(read_plans(PLANS))


def test_every_plan_says_what_the_driver_does():
    plans = read_plans(PLANS)
    assert len(plans) >= 40
    for name, plan in plans.items():
        assert plan.about, name
        assert plan.expect is not None, name
        assert plan.expect.dmesg or plan.expect.says or plan.expect.does, name


def test_points_and_what_a_rule_can_do_at_each():
    listed = CliRunner().invoke(main, ["fault", "points"], env={"COLUMNS": "200"})
    assert not listed.exit_code
    assert {line.split()[0] for line in listed.output.splitlines()[1:]} == POINTS.keys()
    for name, point in POINTS.items():
        shown = CliRunner().invoke(main, ["fault", "points", name], env={"COLUMNS": "200"}).output
        assert all(field in shown for field in point.fields)
        actions = {line.split()[0] for line in shown.splitlines()[2:] if line[1:2].strip()}
        assert actions >= point.actions.keys(), shown


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["pkt.rx", "kind"], 0, "ACKNOWLEDGE\n"),
        (["pkt.rx", "match.kind"], 0, "ACKNOWLEDGE\n"),
        (["cmd", "op"], 0, "CREATE_CQ\n"),
        (["cqe", "qpn"], 0, "a number, or a range such as 4..7\n"),
        (["cmd", "CREATE_CQ"], 0, "cq_context.log_cq_size\n"),
        (["cmd", "match.uid"], 0, "a number, or a range such as 4..7 (fields of the command's inp"),
        (["cmd", "ui"], 1, "there are op, op_mod, slot, and fields of the command's input"),
        (["eqe", "CQ_ERROR"], 0, "data.cqn\n"),
        (["cqe", "cqe.byte_cnt"], 0, "a number, or a range"),
        (["cqe", "syndrome"], 0, "REMOTE_OP_ERR\n"),
        (["cmd", "status"], 0, "NO_RES_ERR\n"),
        (["pkt.rx", "kin"], 1, "no field 'kin' at pkt.rx; near it: kind; there are "),
    ],
)
def test_values_of_a_field(words, status, said):
    result = CliRunner().invoke(main, ["fault", "points", *words])
    assert (result.exit_code, said in result.output) == (status, True), result.output


def test_a_rule_for_several_guests_names_them(monkeypatch):
    counts = [{"guest": name} for name in ("h1", "h1", "h2")]
    client = SimpleNamespace(add=lambda _: "added-1")
    monkeypatch.setattr(
        "emu.cli.commands.functions.fault.connect", lambda *_: contextlib.nullcontext(client)
    )
    for found, said in ((counts, "added-1 (h1, h2)\n"), (counts[:2], "added-1\n")):
        client.rules = lambda found=found: [{"name": "added-1", "counts": found}]
        result = CliRunner().invoke(main, ["fault", "add", "point=irq", "action=drop"])
        assert (result.exit_code, result.output) == (0, said)


def test_a_plan_is_checked_without_a_guest(tmp_path):
    path = tmp_path / "plan.toml"
    rule = '[[rule]]\npoint = "pkt.rx"\naction = "drop"\n'
    path.write_text(f'when = "loaded"\n{rule}[[link]]\nloss = 1\n')
    result = CliRunner().invoke(main, ["fault", "check", str(path)])
    assert (result.exit_code, result.output) == (
        0, "1 rule, 1 link; begins once the driver is up\n",
    )  # fmt: skip
    path.write_text(f'{rule}match.kind = "ACK"\n')
    result = CliRunner().invoke(main, ["fault", "check", str(path)])
    assert result.exit_code == 1
    assert f"{path}:4: rule[1].match.kind: no kind 'ACK'; near it: ACKNOWLEDGE" in result.output


def test_words_of_a_rule():
    words = ("point=cmd", "match.op=CREATE_CQ", "times=1", "index=[1, 2]", "set={a=1}")
    assert table_of(words, "rule") == {
        "point": "cmd", "match": {"op": "CREATE_CQ"}, "times": 1, "index": [1, 2], "set": {"a": 1},
    }  # fmt: skip


@pytest.mark.parametrize("word", ["point", "=3", "a b=3"])
def test_words_that_are_no_rule(word):
    with pytest.raises(UserError, match=r"not KEY=VALUE|not a rule"):
        table_of((word,), "rule")


def test_rates():
    def told(seconds, count):
        return {"t_ns": seconds * 10**9, "functions": [{"counts": {"commands": count}}]}

    assert rates(told(1, 100), told(3, 300))["functions"][0]["counts"] == {"commands": 100.0}
    assert rates(told(1, 300), told(2, 100))["functions"][0]["counts"] == {"commands": 0}


def test_keys_that_lead_in_a_circle_are_shown_once():
    def key(number, below):
        entry = {"key": below, "bytes": 4096, "va": 0, "exists": True}
        return {"key": number, "mode": "KLMS", "below": [entry]}

    items = {1: key(1, 2), 2: key(2, 1)}
    tree = _tree(items[1], items, frozenset())
    assert str(tree.label).startswith("key 0x1")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["status", "--control", "/nowhere"], "/nowhere: No such file"),
        (["fault", "remove", "--control", "/nowhere"], "the names of rules, or --all"),
        (["fault", "add", "--control", "/nowhere", "x"], "'x' is not KEY=VALUE"),
        (["fault", "points", "cdm"], "no point 'cdm'; near it: cmd; points are cmd, "),
        (["replay", "/dev/null", "--", "true"], "not a record"),
        (["minimize", "/dev/null", "--", "true"], "not a record"),
    ],
)
def test_what_cannot_be_done_is_one_line(words, says, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    words = [str(empty) if word == "/dev/null" else word for word in words]
    result = CliRunner().invoke(main, words)
    assert result.exit_code != 0
    assert says in result.output
    assert "Traceback" not in result.output

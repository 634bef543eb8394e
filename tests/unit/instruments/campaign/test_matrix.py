"""A matrix: its runs, and mistakes with their lines."""

from pathlib import Path
from typing import Any

import pytest

from emu.device.faults.parser import load
from emu.host import shipped
from emu.host.user_error import UserError
from emu.instruments.campaign.description import Ended, Expected
from emu.instruments.campaign.matrix import read

FAULTS = Path(__file__).parents[4] / "examples" / "faults"
CAMPAIGNS = FAULTS.parent / "campaigns"
WHOLE = """
name = "whole"
seeds = [1, 2]

[guest]
memory = 1024

[[kernel]]
name = "bookworm"
suite = "bookworm"
[[kernel]]
name = "trixie"

[[device]]
name = "cx6"
devices = ["connectx6"]
[[device]]
name = "pair"
devices = ["connectx6dx", "connectx7,link=eth"]

[[workload]]
name = "probe"
run = "true"
[[workload]]
name = "ping"
run = "ping"
timeout = 10

[[plan]]
[[plan]]
files = "plans/*.toml"

[[exclude]]
kernel = "bookworm"
plan = "l*"
[[exclude]]
workload = "ping"
device = "cx6"
"""
PLAN = """
[[rule]]
point = "cmd"
action = "fail"
match.op = "CREATE_CQ"
"""


def written(tmp_path, text):
    (tmp_path / "plans").mkdir(exist_ok=True)
    for name in ("late", "other"):
        (tmp_path / "plans" / f"{name}.toml").write_text(PLAN)
    path = tmp_path / "matrix.toml"
    path.write_text(text)
    return path


def test_runs_are_the_product_without_what_is_excluded(tmp_path):
    told = read(written(tmp_path, WHOLE))
    names = [run.name for run in told.runs]
    assert told.name == "whole"
    # Two kernels; of devices and workloads three of four; three plans, seeds; then bookworm.late.
    assert len(names) == len(set(names)) == 2 * 3 * 3 * 2 - 3 * 2
    assert names[0] == "bookworm.cx6.probe.none.1"
    assert "bookworm.cx6.probe.late.1" not in names
    assert "trixie.pair.ping.late.2" in names


def test_a_description_holds_all_that_a_run_needs(tmp_path):
    runs = {run.name: run for run in read(written(tmp_path, WHOLE)).runs}
    run = runs["trixie.pair.ping.late.2"]
    guest: Any = run.guest
    assert (guest.suite, guest.devices, run.command, run.timeout) == (
        "trixie",
        ("connectx6dx", "connectx7,link=eth"),
        "ping",
        10,
    )
    assert guest.memory == 1024
    assert run.directory == str(tmp_path)
    plan = load(run.plan)
    assert (plan.seed, plan.rule[0].action) == (2, "fail")
    assert runs["trixie.pair.ping.none.1"].plan == ""


def test_a_plan_begins_when_it_expects_to_or_when_the_matrix_says(tmp_path):
    path = written(tmp_path, WHOLE)
    expects = '[expect]\nrow = "r"\ndoes = "d"\n'
    (tmp_path / "plans" / "late.toml").write_text(PLAN + expects)
    begins = {run.plan_name: run.when for run in read(path).runs}
    assert begins == {"none": "loading", "late": "loaded", "other": "loading"}
    path.write_text(WHOLE.replace('"plans/*.toml"', '"plans/*.toml"\nwhen = "loaded"'))
    assert {run.when for run in read(path).runs if run.plan} == {"loaded"}


def test_what_is_expected_is_the_plans_or_the_matrix_says(tmp_path):
    path = written(tmp_path, WHOLE)
    (tmp_path / "plans" / "late.toml").write_text(f'{PLAN}[expect]\ndmesg = ["a"]\n')
    wanted = {run.plan_name: run.expected for run in read(path).runs}
    assert wanted == {"none": None, "late": Expected(dmesg=("a",)), "other": None}
    for said, ends in (('"found"', [Ended.FOUND]), ('["passed", "failed"]', [*Ended][::2][:2])):
        path.write_text(WHOLE.replace('"plans/*.toml"', f'"plans/*.toml"\nexpect = {said}'))
        wanted = {run.plan_name: run.expected for run in read(path).runs}
        assert wanted["late"] == wanted["other"] == Expected(ends=tuple(ends))
        assert wanted["none"] is None


def test_the_examples_have_what_their_plans_expect():
    """By the name that a command takes, with the plans that stand beside it."""
    runs = read(shipped.example("campaign", "refused")).runs
    plans = {run.plan_name: run.expected for run in runs}
    assert plans["none"] is None
    assert any("INIT_HCA" in line for line in plans["probe-init-hca-fails"].dmesg)


def test_the_shortest_matrix_is_a_command(tmp_path):
    (run,) = read(written(tmp_path, '[[workload]]\nname = "w"\nrun = "true"\n')).runs
    assert run.name == "trixie.connectx6.w.none.0"


@pytest.mark.parametrize(
    ("line", "text", "why"),
    [
        (1, "", r"no \[\[workload\]\]: at least 1 is needed, with name and run"),
        (
            2,
            '[[workload]]\nnome = "w"\nrun = "x"',
            "no key 'nome' here; near it: name; there are name, run, timeout",
        ),
        (
            2,
            '[[workload]]\nname = "W W"\nrun = "x"',
            "name: a name of up to 40 .* is needed, not 'W W'",
        ),
        (4, '[[workload]]\nname = "w"\nrun = "x"\n[[workload]]\nname = "w"\nrun = "y"', "another"),
        (1, 'seeds = "x"\n[[workload]]\nname = "w"\nrun = "x"', "seeds: a list is needed"),
        (
            1,
            'seeds = []\n[[workload]]\nname = "w"\nrun = "x"',
            "seeds: a length of at least 1 is needed",
        ),
        (6, '{}[[kernel]]\nname = "k"\nsuite = "woody"', "suite: 'woody' is not one of"),
        (6, '{}[[kernel]]\nname = "k"\nkernel = ["bz"]', "no kernel .*bz"),
        (6, '{}[[device]]\nname = "d"\ndevices = ["cx9"]', "unknown model 'cx9'; "),
        (5, '{}[[plan]]\nfiles = "no*.toml"', "files: no plan 'no"),
        (5, '{}[[plan]]\nfiles = "@wann"', "files: no plan '@wann'; near it: @wan"),
        (5, '{}[[plan]]\nname = "p"\nfiles = "plans/*.toml"', "2 plans have their own names"),
        (5, "{}[[plan]]\n[[plan]]", "'none' is the name of another plan"),
        (5, '{}[guest]\naccel = "x"', "accel: 'x' is not one of auto, kvm, tcg"),
        (6, "{}[guest]\nicount = 2\ncpus = 2", "icount needs one processor"),
        (5, '{}[[plan]]\nexpect = "panicked"', "expect: 'panicked' is not one of passed, skipped"),
        (5, "{}[[plan]]\nexpect = []", "expect: a length of at least 1"),
        (5, "{}[guest]\nmemory = 1", "memory: at least 512 is needed, not 1"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, line, text, why):
    text = text.format('[[workload]]\nname = "w"\nrun = "x"\n') if "{}" in text else text
    with pytest.raises(UserError, match=why) as caught:
        read(written(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "matrix.toml"))
    if f"matrix.toml:{line}:" not in str(caught.value):
        pytest.fail(str(caught.value))


def test_all_mistakes_are_told_at_once(tmp_path):
    text = """[[workload]]
name = "w"
run = "x"
tiemout = 3
[[device]]
name = "d"
devices = ["cx9"]
[[kernel]]
name = "k"
kernel = ["bz"]
[[plan]]
files = "none.toml"
[[plan]]
files = "plans/late.toml"
[guest]
icount = 2
cpus = 2
"""
    path = written(tmp_path, text)
    (tmp_path / "plans" / "late.toml").write_text('[[rule]]\npoint = "cmd"\naction = "fly"\n')
    with pytest.raises(UserError) as caught:
        read(path)
    lines = str(caught.value).splitlines()
    assert [line.removeprefix(f"{path}:").partition(":")[0] for line in lines] == [
        *("4", "7", "10", "12", "14", "17")
    ], lines


@pytest.mark.parametrize("wrong", ['name = "W W"\nrun = "x"', 'name = "w"', "name = 1\nrun = 2"])
def test_a_wrong_or_missing_text_hides_no_other_mistake(tmp_path, wrong):
    text = f"""[[device]]
name = "d"
devices = ["cx9"]
[[plan]]
files = "none.toml"
[[workload]]
{wrong}
"""
    with pytest.raises(UserError) as caught:
        read(written(tmp_path, text))
    said = str(caught.value)
    own = ":7: name" if "run" in wrong else ":6: no run"
    for why in (":3: unknown model 'cx9'", ":5: files: no plan 'none.toml'", own):
        assert why in said, said


@pytest.mark.parametrize("workload", ["", "workload = []\n", "workload = 5\n", "[workload]\n"])
def test_a_file_without_a_workload_has_all_its_mistakes_told(tmp_path, workload):
    text = f"""{workload if "=" in workload else ""}[[device]]
name = "d"
devices = ["cx9"]
[[plan]]
files = "none.toml"
{workload if "=" not in workload else ""}"""
    with pytest.raises(UserError) as caught:
        read(written(tmp_path, text))
    told = str(caught.value).splitlines()
    assert len(told) == 3, told
    for why in ("workload", "unknown model 'cx9'", "files: no plan 'none.toml'"):
        assert why in str(caught.value), told


def test_a_plan_with_a_wrong_key_is_not_told_to_have_anothers_name(tmp_path):
    """Without its file it would be a second plan called none."""
    text = '[[workload]]\nname="w"\nrun="x"\n[[plan]]\n[[plan]]\nfile = "acks.toml"\n'
    with pytest.raises(UserError) as caught:
        read(written(tmp_path, text))
    (line,) = str(caught.value).splitlines()
    assert ":6: no key 'file' here; near it: files" in line


def test_a_plans_mistake_is_told_with_the_plans_line(tmp_path):
    path = written(tmp_path, '[[workload]]\nname="w"\nrun="x"\n[[plan]]\nfiles="plans/*.toml"\n')
    (tmp_path / "plans" / "late.toml").write_text('[[rule]]\npoint = "cmd"\naction = "fly"\n')
    with pytest.raises(UserError, match=r"late\.toml:3: rule\[1\]\.action"):
        read(path)


def test_nothing_left_is_a_mistake(tmp_path):
    with pytest.raises(UserError, match="no run is left"):
        read(written(tmp_path, WHOLE + '[[exclude]]\nkernel = "*"\n'))


def test_an_architecture_is_checked_with_the_functions_of_each_device(tmp_path):
    """ppc64el guests need two functions."""
    text = """[[kernel]]
name = "k"
arch = "ppc64el"
[[device]]
name = "one"
devices = ["connectx6"]
[[device]]
name = "two"
devices = ["connectx6", "connectx6"]
[[workload]]
name = "w"
run = "x"
"""
    why = r":3: arch: QEMU starts ppc64el guests with 2 functions or more \(device 'one'\)$"
    with pytest.raises(UserError, match=why):
        read(written(tmp_path, text))
    (run,) = read(written(tmp_path, text + '[[exclude]]\ndevice = "one"\n')).runs
    assert run.guest.value("arch") == "ppc64el"
    assert len(run.guest.value("devices")) == 2


@pytest.mark.hostile
def test_a_matrix_of_too_many_runs_is_refused(tmp_path):
    text = f'seeds = {list(range(1000))}\n[[workload]]\nname = "w"\nrun = "x"\n'
    text += "".join(f'[[device]]\nname = "d{n}"\ndevices = ["connectx6"]\n' for n in range(102))
    with pytest.raises(UserError, match="more than 100000 runs"):
        read(written(tmp_path, text))


@pytest.mark.parametrize("path", sorted(CAMPAIGNS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_matrices(path):
    assert read(path).runs


def test_plans_of_the_library_by_their_names(tmp_path):
    text = '[[workload]]\nname = "w"\nrun = "x"\n[[plan]]\nfiles = "@completion-remote-*"\n'
    names = [run.name for run in read(written(tmp_path, text)).runs]
    assert "trixie.connectx6.w.completion-remote-op.0" in names
    assert len(names) == len([*FAULTS.glob("completion-remote-*.toml")])


def test_the_matrix_of_the_guide(tmp_path):
    page = (FAULTS.parents[1] / "share" / "guide" / "campaigns.md").read_text()
    text = page.partition("## A matrix")[2].split("```")[1]
    names = [run.name for run in read(written(tmp_path, text)).runs]
    assert {"trixie.ib.mine.none.1", "trixie.ib.mine.completion-late.2"} <= {*names}

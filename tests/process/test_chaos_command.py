"""``mlx5emu chaos``: a test for each failure of a set; mistakes are one line, before any guest."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.instruments import fake_chaos
from helpers.instruments.fake_runs import descriptions

from emu.cli.commands.trials import chaos
from emu.cli.main import main
from emu.instruments.campaign.store import Store
from emu.instruments.chaos.runs import DEVICES

SET = """
[[failure]]
name = "flap"
about = "The link flaps for 5 s."
when = [2, 9]
rule = [{ point = "load", action = "link", ms = 5000 }]

[[failure]]
name = "lost"
about = "A completion is lost."
plan = "@completion-lost"
"""
FRAMES = """
[[failure]]
name = "frames-lost"
about = "Frames are lost."
rule = [{ point = "frame.tx", action = "drop" }]
"""


def invoke(*words, test=("errs",)):
    return CliRunner().invoke(main, ["chaos", *map(str, words), *(("--", *test) if test else ())])


@pytest.fixture(autouse=True)
def _no_guests(tmp_path, monkeypatch, pytestconfig):
    monkeypatch.setenv("PYTHONPATH", f"{pytestconfig.rootpath}:{pytestconfig.rootpath / 'tests'}")
    monkeypatch.setattr(chaos, "GUEST_RUN", fake_chaos.NAME)
    monkeypatch.setattr(chaos, "prepare", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    Path("few.toml").write_text(SET)
    one = '[[failure]]\nname = "f{}"\nabout = "A."\nplan = "@wan"\n'
    Path("many.toml").write_text("".join(map(one.format, range(101))))


def test_a_row_for_each_failure():
    done = invoke("few.toml", "--jobs", 1)
    assert done.exit_code == 0
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert ["flap", "clean error  status 1: the output"] in lines
    assert ["lost", "clean error  status 1: the output"] in lines
    assert "2 failures: 2 clean error" in done.stdout
    assert "most were" not in done.stdout
    assert Path("few.chaos/report.html").exists()
    page = Path("few.chaos/report.html").read_text()
    assert '<td class="bad">' not in page
    assert "<td>clean error<td>status 1: the output" in page


def test_a_failure_leads_to_its_trace():
    invoke("few.toml", "--jobs", 1, "--only", "flap", test=("hangs",))
    page = Path("few.chaos/report.html").read_text()
    name = "trixie.ib.test.flap.0"
    assert f'<a href="traces/{name}.html">flap</a><small>The link flaps for 5 s.</small>' in page
    assert '<td class="bad">hang<td>no end after 25 s' in page
    assert f'<a href="records/{name}.jsonl">record</a>' in page
    trace = Path(f"few.chaos/traces/{name}.html").read_text()
    assert '"events":2' in trace
    invoke("few.toml", "--jobs", 1, "--only", "flap", test=("misses",))
    assert "<td>flap<small>" in Path("few.chaos/report.html").read_text()
    assert not Path("few.chaos/traces").exists()


def test_the_time_limit_follows_from_the_clean_run_and_the_fault():
    invoke("few.toml", "--jobs", 1, "--patience", 4, "--min-patience", 3)
    clean, flap, lost = Store.open(Path("few.chaos")).runs.values()
    assert (clean.timeout, flap.timeout, lost.timeout) == (300, 6 + 5, 6)
    assert (clean.plan, flap.when) == ("", "loaded")
    assert clean.guest.value("devices") == DEVICES["ib"]


def test_no_time_limit_is_above_a_day():
    for option in ("--timeout", "--min-patience"):
        for value in (90_000, "inf", "nan"):
            done = invoke("few.toml", option, value)
            assert (done.exit_code, f"Invalid value for '{option}'" in done.stderr) == (2, True)
    assert "a number is needed, not 'inf'" in invoke("few.toml", "--patience", "inf").stderr
    assert invoke("few.toml", "--jobs", 1, "--patience", 1_000_000).exit_code == 0
    assert Store.open(Path("few.chaos")).runs["trixie.ib.test.flap.0"].timeout == 86_400


def test_a_bad_verdict_fails_the_command_and_tells_how_to_repeat_it():
    done = invoke("few.toml", "--jobs", 1, "--junit", "out.xml", test=("hangs",))
    assert done.exit_code == 1
    assert "no end after 25 s; 1 thread: 1 running" in done.stdout
    record = "few.chaos/records/trixie.ib.test.flap.0.jsonl"
    assert re.search(rf"flap again: mlx5emu replay --timeout \d+ {record} -- hangs", done.stdout)
    text = Path("out.xml").read_text()
    assert 'failures="2"' in text
    assert 'message="hang: no end after 20 s; 1 thread: 1 running"' in text
    assert (
        "thread 7 hangs: state R" in Path("few.chaos/outputs/trixie.ib.test.flap.0.txt").read_text()
    )
    assert (
        invoke("few.toml", "--jobs", 1, "--fail-on", "crash,leak", test=("hangs",)).exit_code == 0
    )
    assert invoke("few.toml", "--jobs", 1, "--fail-on", "never", test=("hangs",)).exit_code == 0
    assert invoke("few.toml", "--jobs", 1, "--fail-on", "error").exit_code == 1


def test_a_failure_that_was_not_reached_is_no_recovery():
    done = invoke("few.toml", "--jobs", 1, "--json", test=("misses",))
    report = json.loads(done.stdout)
    assert report["verdicts"] == {"not-reached": 2}
    assert report["failures"][0]["runs"][0]["evidence"] == "the test ended before the fault struck"
    done = invoke("few.toml", "--jobs", 1, "--junit", "out.xml", test=("misses",))
    assert "2 failures: 2 not reached" in done.stdout
    assert (
        "most were not reached: let the test send more; failures that begin with RDMA: 2. For a"
        " program over sockets use @over-ipoib, or @over-ethernet with --link eth\n"
    ) in done.stdout
    assert 'skipped="2"' in Path("out.xml").read_text()
    assert invoke("few.toml", "--fail-on", "not-reached", test=("misses",)).exit_code == 1


def test_a_set_of_frames_gets_no_advice_about_rdma():
    Path("frames.toml").write_text(FRAMES)
    done = invoke("frames.toml", "--jobs", 1, "--link", "eth", test=("misses",))
    assert "most were not reached: let the test send more\n" in done.stdout
    assert "RDMA" not in done.stdout


def test_seeds_are_repetitions():
    done = invoke("few.toml", "--jobs", 1, "--repeat", 3, "--seed", 5, "--only", "flap", "--json")
    report = json.loads(done.stdout)
    assert [one["seed"] for one in report["failures"][0]["runs"]] == [5, 6, 7]
    plans = {run.plan for run in Store.open(Path("few.chaos")).runs.values()}
    assert len(plans) == 1 + 3
    invoke("few.toml", "--jobs", 1, "--repeat", 3, "--seed", 5, "--only", "flap")
    assert plans == {run.plan for run in Store.open(Path("few.chaos")).runs.values()}


def test_a_test_that_fails_without_faults_ends_it():
    done = invoke("few.toml", "--jobs", 1, test=("fails",))
    assert done.exit_code == chaos.FAILS_WITHOUT_FAULTS
    assert "the test fails without faults: status 1: the output" in done.stderr
    assert len(Store.open(Path("few.chaos")).runs) == 1


def test_files_of_results_tell_of_a_test_that_fails_without_faults():
    files = "--junit", "out.xml", "--tap", "out.tap"
    assert invoke("few.toml", "--jobs", 1, *files, test=("true",)).exit_code == 0
    invoke("few.toml", "--jobs", 1, *files, test=("fails",))
    assert 'errors="1"' in (text := Path("out.xml").read_text())
    assert 'tests="1"' in text
    assert 'message="the test fails without faults: status 1: the output"' in text
    assert re.search(r"^not ok 1 .*chaos\.trixie\.ib.*none\.0", Path("out.tap").read_text(), re.M)


def test_earlier_results_are_removed_and_no_other_files():
    invoke("few.toml", "--jobs", 1)
    assert "2 failures: 2 recovered" in invoke("few.toml", "--jobs", 1, test=("true",)).stdout
    Path("mine").mkdir()
    Path("mine/file").touch()
    done = invoke("few.toml", "--results", "mine")
    assert done.exit_code == 1
    assert "mine is no campaign directory" in done.stderr
    assert Path("mine/file").exists()
    Store.create(Path("its.campaign"), "its", descriptions(1))
    done = invoke("few.toml", "--results", "its.campaign")
    assert done.exit_code == 1
    assert "its.campaign has the results of `mlx5emu campaign`: choose another" in done.stderr
    assert len(Store.open(Path("its.campaign")).runs) == 1


def test_functions_of_a_link_layer_or_of_the_user():
    invoke("few.toml", "--jobs", 1, "--link", "eth")
    (run, *_) = Store.open(Path("few.chaos")).runs.values()
    assert (run.device, run.guest.value("devices")) == ("eth", DEVICES["eth"])
    invoke("few.toml", "--jobs", 1, "--device", "connectx7", "--memory", 1024, "--cpus", 1)
    (run, *_) = Store.open(Path("few.chaos")).runs.values()
    chosen = [run.guest.value(name) for name in ("devices", "memory_mib", "cpus", "share")]
    assert (run.device, chosen) == ("device", [("connectx7",), 1024, 1, None])
    assert run.directory == str(Path.cwd())
    invoke("few.toml", "--jobs", 1, "--share", ".:rw")
    (run, *_) = Store.open(Path("few.chaos")).runs.values()
    assert (run.guest.value("share"), run.directory) == (f"{Path.cwd()}:rw", None)


def test_a_second_guest_has_the_second_function_and_no_failures():
    own = '[[failure]]\nname = "silent"\nabout = "A."\nrule = [{ point = "pkt.tx", action = "drop"'
    Path("two.toml").write_text(SET + own + ", function = 1 }]\n")
    done = invoke("two.toml", "--jobs", 1, "--peer", "./server $ADDRESS", test=("hangs",))
    clean, *runs = Store.open(Path("two.chaos")).runs.values()
    assert clean.guest.value("devices") == DEVICES["ib"][:1]
    assert (clean.peer.command, clean.peer.devices) == ("./server $ADDRESS", DEVICES["ib"][1:])
    assert [run.plan_name for run in runs] == ["flap", "lost"]
    assert all(run.peer == clean.peer for run in runs)
    assert "mlx5emu replay" not in done.stdout


@pytest.mark.parametrize(
    ("words", "test", "says"),
    [
        (("few.toml",), (), "give the test behind --: mlx5emu chaos -- ./my-test"),
        (("@verb",), ("true",), "no failure set @verb; near it: @verbs"),
        (("fwe.toml",), ("true",), "near it: few.toml"),
        (("few.toml", "--only", "flop"), ("true",), "matches no failure; near it: flap"),
        (("few.toml", "--fail-on", "hangs"), ("true",), "near it: hang"),
        (("few.toml", "--link", "ibb"), ("true",), "near it: ib"),
        (("few.toml", "--no-device"), ("true",), "a failure needs a function: drop --no-device"),
        (("few.toml", "--device", "connectx66"), ("true",), "near it: connectx6"),
        (("few.toml",), ("./nope",), "no such file in"),
        (("few.toml", "--pcap", "x"), ("true",), "every guest would write the same file"),
        (("few.toml", "--repeat", "0"), ("true",), "1 to 1000 is needed, not 0"),
        (
            ("few.toml", "--peer", "true", "--device", "connectx6"),
            ("true",),
            "--peer needs two functions",
        ),
        (("few.toml", "--peer", " "), ("true",), "--peer needs a command"),
        (
            ("few.toml", "--peer", "true", "--subnet", "@two-leaves"),
            ("true",),
            "--subnet cannot be used with --peer",
        ),
        (("many.toml", "--repeat", "1000"), ("true",), "101 failures x --repeat 1000: more than"),
    ],
)
def test_mistakes_are_told_before_any_guest(words, test, says):
    done = invoke(*words, test=test)
    assert done.exit_code in (1, 2, 127)
    assert says in " ".join(done.output.split())
    assert not Path("few.chaos").exists()


RECIPE = """
about = "A test that ends with an error."
command = "errs"
only = ["lost"]
link = "eth"
[guest]
memory = 1024
"""


def test_a_recipe_has_the_test_and_defaults_of_options():
    Path("own.toml").write_text(RECIPE)
    done = invoke("--recipe", "own.toml", "few.toml", "--jobs", 1, test=())
    assert done.exit_code == 0, done.output
    (clean, lost) = Store.open(Path("few.chaos")).runs.values()
    assert (clean.device, clean.command) == ("eth", "errs")
    assert lost.plan_name == "lost"
    assert clean.guest.value("memory_mib") == 1024
    assert clean.guest.value("share") == str(Path.cwd())


def test_the_command_line_has_precedence_over_a_recipe():
    Path("own.toml").write_text(RECIPE)
    words = ("--memory", 2000, "--only", "flap", "--link", "ib", "--jobs", 1)
    invoke("--recipe", "own.toml", "few.toml", *words, test=())
    (clean, flap) = Store.open(Path("few.chaos")).runs.values()
    assert (clean.device, flap.plan_name) == ("ib", "flap")
    assert clean.guest.value("memory_mib") == 2000


def test_a_recipe_with_a_mistake_or_a_second_test_starts_no_guest():
    Path("own.toml").write_text(RECIPE)
    done = invoke("--recipe", "own.toml", "few.toml", test=("other",))
    assert (done.exit_code, "--recipe has the test" in done.stderr) == (2, True)
    Path("own.toml").write_text(RECIPE.replace("memory", "memroy"))
    done = invoke("--recipe", "own.toml", "few.toml", test=())
    assert done.exit_code == 2
    assert "own.toml:7: " in done.stderr
    assert "memory" in done.stderr
    done = invoke("--recipe", "@ucx-cr", test=())
    assert "no recipe @ucx-cr; near it: @ucx-" in done.stderr
    assert not Path("few.chaos").exists()

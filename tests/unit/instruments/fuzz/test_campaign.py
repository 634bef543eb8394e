"""A run of the fuzzer over a pretended executor: what goes into the folder, and how it goes on."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import firmware_cmds  # noqa: F401  (declares the commands)
from emu.device.cmdif.registry import COMMANDS
from emu.device.faults.parser import load
from emu.guests import GuestOptions
from emu.guests.errors import LabError
from emu.host.user_error import UserError
from emu.instruments.fuzz import campaign
from emu.instruments.fuzz.campaign import REPRODUCTIONS, FuzzCampaign, progress_of
from emu.instruments.fuzz.corpus import Corpus
from emu.instruments.fuzz.grammar import targets
from emu.instruments.fuzz.later import Later
from emu.instruments.fuzz.loop import Feedback

PLAN = load('[[rule]]\npoint = "cmd"\naction = "fail"\nmatch.op = "ALLOC_PD"\n')


TWO = load(
    '[[rule]]\nname = "a"\npoint = "cmd"\naction = "fail"\nmatch.op = "DEALLOC_PD"\n'
    '[[rule]]\nname = "b"\npoint = "cmd"\naction = "fail"\nmatch.op = "ALLOC_PD"\n'
)

MADE: list[Pretended] = []


class Pretended:
    """Every input with rules runs a block of its own; ALLOC_PD is the driver's end."""

    kernel = "6.12"
    boots = stuck = 0

    def __init__(self, options, watcher):
        self.inputs = []
        MADE.append(self)

    def run(self, one):
        self.inputs.append(one)
        rules = one.rules if one.has_faults else []
        ops = {rule.get("match", {}).get("op") for rule in rules}
        blocks = {("mlx5_core", 0)} | ({("mlx5_ib", int(one.id, 16))} if rules else set())
        titles = ("BUG: it is over",) if "ALLOC_PD" in ops else ()
        return Feedback(frozenset(blocks), titles=titles, log="log" if titles else "")

    def close(self):
        pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "GuestExecutor", Pretended)
    MADE.clear()

    def run_it(runs, plans=(), seconds=None, **more):
        corpus = Corpus(tmp_path / "corpus", create=True)
        said = []
        words = (GuestOptions(), ["probe"], 1, targets(COMMANDS), said.append, plans)
        FuzzCampaign(corpus, *words, **more).run(seconds, runs)
        return corpus, said

    return run_it


def test_a_time_shorter_than_the_boot_is_told(run):
    _, said = run(None, seconds=0.0)
    assert said == ["no input ran: the guest's boot took all of the time"]
    _, said = run(1, seconds=3600.0)
    assert len(said) == 1  # the first input is reported at once
    assert "1 run," in said[0]


def test_a_run_leaves_inputs_findings_progress_and_a_picture(run):
    corpus, said = run(5, [PLAN])
    (name,) = corpus.findings()
    assert corpus.finding(name).input.plan.rule[0].match == {"op": "ALLOC_PD"}
    assert "found: BUG: it is over" in said
    assert [line.blocks for line in progress_of(corpus)][:3] == [1, 1, 2]
    assert "polyline" in (corpus.path / "progress.svg").read_text()
    assert len(list(corpus.entries())) == 3


def test_the_page_names_the_files_of_a_corpus(run):
    corpus, _ = run(5, [PLAN])
    page = Path("share/guide/fuzzing.md").read_text()
    table = page.partition("A corpus has these files")[2].partition("\n![")[0]
    named = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert sorted(named) == sorted(
        f"{path.name}/" if path.is_dir() else path.name for path in corpus.path.iterdir()
    )


def test_each_progress_is_told_once_and_counts_the_stored_inputs(run, monkeypatch):
    """Also those that lost their guest, in this run and in the next one."""
    told = Pretended.run
    monkeypatch.setattr(campaign, "_REPORT_SECONDS", -1.0)
    monkeypatch.setattr(
        Pretended, "run", lambda self, one: dataclasses.replace(told(self, one), is_lost=True)
    )
    for _ in range(2):
        corpus, said = run(5, [PLAN])
        lines = [line for line in said if " kept, " in line]
        assert [line.split(", ")[1].split()[0] for line in lines] == [
            str(number) for number, _ in enumerate(progress_of(corpus), 1)
        ][-len(lines) :]
        assert len(lines) == 5
        kept = len(list(corpus.entries()))
        assert progress_of(corpus)[-1].kept == kept > 1
        assert f", {kept} inputs kept," in lines[-1]


def test_the_first_input_with_a_title_is_made_smaller(run):
    corpus, _ = run(4, [TWO])
    (name,) = corpus.findings()
    (rule,) = corpus.finding(name).input.plan.rule
    assert rule.match == {"op": "ALLOC_PD"}
    tried = [one for one in MADE[0].inputs if one.has_faults]
    assert [len(one.rules) for one in tried[:4]] == [2, 2, 1, 1]


def test_what_was_found_is_tried_again(run):
    corpus, said = run(4, [TWO])
    (about,) = corpus.findings().values()
    assert about.again == REPRODUCTIONS
    assert "BUG: it is over: reproduced in 3 of 3 more trials" in said


def test_what_comes_up_only_once_says_so(run, monkeypatch):
    told, rest = Pretended.run, [1, 0, 0]

    def run_once(self, one):
        feedback = told(self, one)
        if feedback.titles and len(one.rules) == 1 and not (rest and rest.pop(0)):
            return dataclasses.replace(feedback, titles=())
        return feedback

    monkeypatch.setattr(Pretended, "run", run_once)
    corpus, said = run(3, [PLAN])
    (about,) = corpus.findings().values()
    assert about.again == 0
    assert not [line for line in said if "more trials" in line]


def test_several_guests_side_by_side(run):
    corpus, _ = run(40, [PLAN], jobs=3)
    assert len(MADE) == 3
    assert len(progress_of(corpus)) in range(40, 43)
    inputs = [one.id for made in MADE for one in made.inputs if one.has_faults]
    assert len({entry.input.id for entry in corpus.entries()} - set(inputs)) == 0
    assert list(corpus.findings())


def test_several_guests_try_titles_again_meanwhile(run):
    corpus, said = run(40, [TWO], jobs=2)
    (about,) = corpus.findings().values()
    assert about.again == REPRODUCTIONS
    assert "BUG: it is over: reproduced in 3 of 3 more trials" in said


def test_what_there_was_no_time_for_is_done_by_the_next_run(run, monkeypatch):
    next_title = Later.next_title
    monkeypatch.setattr(Later, "next_title", lambda _: None)
    corpus, said = run(20, [TWO], jobs=2)
    assert "1 titles still need more trials: the next run makes them" in said
    assert [about.again for about in corpus.findings().values()] == [0]
    monkeypatch.setattr(Later, "next_title", next_title)
    corpus, _ = run(20, jobs=2)
    assert [about.again for about in corpus.findings().values()] == [REPRODUCTIONS]


def test_one_that_fails_ends_the_others(run, monkeypatch):
    def run_badly(self, one):
        if self is MADE[1]:
            raise LabError("no guest")
        return Feedback(frozenset())

    monkeypatch.setattr(Pretended, "run", run_badly)
    with pytest.raises(LabError, match="no guest"):
        run(None, jobs=2)


def test_a_driver_that_is_stuck_is_not_waited_for_again(run, monkeypatch):
    told = Pretended.run
    monkeypatch.setattr(
        Pretended, "run", lambda *words: dataclasses.replace(told(*words), is_stuck=True)
    )
    corpus, _ = run(3, [TWO])
    (name,) = corpus.findings()
    assert len(corpus.finding(name).input.plan.rule) == 2
    assert len(MADE[0].inputs) == 3


def test_the_next_run_goes_on_and_repeats_nothing(run):
    run(4)
    corpus, _ = run(3)
    first, second = MADE
    assert [one.has_faults for one in first.inputs] == [False, False, True, True]
    assert [one.has_faults for one in second.inputs] == [False, True, True]
    lines = progress_of(corpus)
    assert len(lines) == 7
    assert lines[-1].blocks == 1 + 4
    assert [line.seconds for line in lines] == sorted(line.seconds for line in lines)


def test_inputs_of_another_kernel_are_tried_in_this_one(run, monkeypatch):
    corpus, _ = run(4)
    kept = {entry.input.id for entry in corpus.entries()}
    monkeypatch.setattr(Pretended, "kernel", "7.2")
    run(2 + len(kept))
    assert kept <= {one.id for one in MADE[1].inputs}
    assert set(json.loads((corpus.path / "blocks.json").read_text())) == {"6.12", "7.2"}


@pytest.mark.hostile
@pytest.mark.parametrize("line", ["[]", "{}", "not JSON", '{"seconds": 1, "blocks": Infinity}'])
def test_a_line_that_is_no_progress(run, line):
    corpus, _ = run(1)
    path = corpus.path / "progress.jsonl"
    path.write_text(path.read_text() + line + "\n")
    number = len(path.read_text().splitlines())
    with pytest.raises(UserError, match=f"{number}: not a line of a run's progress"):
        progress_of(corpus)

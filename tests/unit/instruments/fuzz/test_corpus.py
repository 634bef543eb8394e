"""The folder of a fuzzing run: kept, merged, and refused when it is none."""

from __future__ import annotations

import json

import pytest

from emu.device.faults.parser import load
from emu.host.user_error import UserError
from emu.instruments.coverage.data import Coverage, CoveredFunction, CoveredKernel, CoveredModule
from emu.instruments.fuzz.corpus import About, Corpus, CorpusEntry, FindingAbout, blocks_of
from emu.instruments.fuzz.covered import covered
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.plot import svg

RULE = '[[rule]]\npoint = "cmd"\naction = "fail"\nmatch.op = "{}"\n'


def entry(op="ALLOC_PD", new=(("mlx5_core", 64),)):
    about = About(workload="probe", kernel="6.12", device=["connectx6"], new=list(new))
    return CorpusEntry(Input(load(RULE.format(op)), "probe"), about)


def finding(title="BUG: x in y", **more):
    return FindingAbout(title=title, workload="probe", kernel="6.12", device=["connectx6"], **more)


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path / "corpus", create=True)


def test_an_input_comes_back_as_it_was(corpus):
    kept = entry()
    corpus.add(kept)
    (found,) = Corpus(corpus.path).entries()
    assert (found.input.id, found.about) == (kept.input.id, kept.about)
    assert blocks_of(found) == [("mlx5_core", 64)]


def test_a_title_is_found_once_and_counted_and_its_shortest_plan_kept(corpus):
    assert corpus.note_finding(finding(), "long plan text", "first log")
    assert not corpus.note_finding(finding(), "plan", "second log")
    assert not corpus.note_finding(finding(), "a longer plan", "third log")
    (name,) = corpus.findings()
    assert corpus.findings()[name].times == 3
    folder = corpus.path / "findings" / name
    assert (folder / "plan.toml").read_text() == "plan"
    assert (folder / "log.txt").read_text() == "second log"


def test_hits_of_each_kernel_are_kept(corpus):
    assert corpus.hits("6.12") == ({}, set())
    corpus.save_hits("6.12", {("mlx5_core", 64): 3, ("mlx5_ib", 0): 1}, {"probe"})
    corpus.save_hits("7.2", {("mlx5_core", 80): 2}, set())
    assert corpus.hits("6.12") == ({("mlx5_core", 64): 3, ("mlx5_ib", 0): 1}, {"probe"})
    assert corpus.hits("7.2") == ({("mlx5_core", 80): 2}, set())


@pytest.mark.hostile
@pytest.mark.parametrize("text", ["{", "[]", '{"6.12": 1}', '{"6.12": {"workloads": [7]}}'])
def test_broken_hits_are_told_with_their_file(corpus, text):
    (corpus.path / "blocks.json").write_text(text)
    with pytest.raises(UserError, match=r"blocks\.json"):
        corpus.hits("6.12")


def test_only_one_run_at_a_time_uses_a_corpus(corpus):
    other = Corpus(corpus.path)
    with corpus.locked(), pytest.raises(UserError, match="another run"), other.locked():
        pass
    with other.locked():
        pass


def test_merge_takes_over_what_is_new(corpus, tmp_path):
    other = Corpus(tmp_path / "other", create=True)
    corpus.add(entry("ALLOC_PD"))
    for op in ("ALLOC_PD", "CREATE_CQ"):
        other.add(entry(op))
    other.note_finding(finding(), RULE.format("CREATE_EQ"), "log")
    assert corpus.merge(other) == (1, 1)
    assert corpus.merge(other) == (0, 0)
    assert len(list(corpus.entries())) == 2
    assert corpus.finding("BUG-x-in-y").input.plan.rule[0].match == {"op": "CREATE_EQ"}


@pytest.mark.hostile
@pytest.mark.parametrize("content", [None, "", "[]", '{"mlx5emu_fuzz": 2}', "[" * 5000])
def test_what_is_no_corpus_is_refused(tmp_path, content):
    (tmp_path / "inputs").mkdir()
    if content is not None:
        (tmp_path / "fuzz.json").write_text(content)
    with pytest.raises(UserError, match=r"fuzz\.json"):
        Corpus(tmp_path, create=True)


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["../../etc/passwd", "", "0123456789AB", "0123456789ab/"])
def test_an_id_is_no_path(corpus, name):
    with pytest.raises(UserError, match="not an input's ID"):
        corpus.entry(name)


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("json", "{}", "workload: missing"),
        (
            "json",
            json.dumps({"workload": "x", "kernel": "y", "device": [], "new": [["a", "b"]]}),
            "new.0.1",
        ),
        ("toml", "[[rule]]\npoint = 'nowhere'", "point"),
    ],
)
def test_a_broken_input_is_told_with_its_file(corpus, file, text, why):
    kept = entry()
    corpus.add(kept)
    (corpus.path / "inputs" / f"{kept.input.id}.{file}").write_text(text)
    with pytest.raises(UserError, match=f"{kept.input.id}.{file}.*{why}"):
        list(corpus.entries())


def test_picture_of_a_run_has_its_numbers():
    text = "".join(svg([(0.0, 100), (60.0, 400), (120.0, 500)]))
    assert text.count("<text") == 12
    assert all(word in text for word in (">500<", ">2.0<", "polyline"))
    assert "".join(svg([])).endswith("</svg>\n")


def test_blocks_count_for_the_function_in_which_they_lie():
    functions = [
        CoveredFunction(name="first", offset=0x10, calls=7),
        CoveredFunction(name="second", offset=0x40, calls=0),
        CoveredFunction(name="gone", offset=None, calls=1),
        CoveredFunction(name="third", offset=0x80, calls=0),
    ]
    modules = {"mlx5_core": CoveredModule(directory="drivers/net", functions=functions)}
    known = Coverage(
        mlx5emu_coverage=1, kernels={"6.12": CoveredKernel(runs=1, missed=0, modules=modules)}
    )
    hits = {
        ("mlx5_core", 0x44): 3,
        ("mlx5_core", 0x7F): 9,
        ("mlx5_core", 4): 5,
        ("mlx5_ib", 0x80): 1,
    }
    found = covered(known, "6.12", hits).kernels["6.12"].modules["mlx5_core"]
    assert [one.calls for one in found.functions] == [0, 9, 0, 0]
    assert found.functions[1].name == "second"
    with pytest.raises(UserError, match=r"no coverage of 7\.2"):
        covered(known, "7.2", hits)

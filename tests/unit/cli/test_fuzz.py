"""``mlx5emu fuzz``, as far as it goes without a guest."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.device.faults.parser import load
from emu.instruments.fuzz import library
from emu.instruments.fuzz.corpus import About, Corpus, CorpusEntry, FindingAbout
from emu.instruments.fuzz.mutate import Input

RULE = '[[rule]]\npoint = "cmd"\naction = "fail"\nmatch.op = "ALLOC_PD"\n'


def mlx5emu(*words):
    return CliRunner().invoke(main, ["fuzz", *map(str, words)])


@pytest.fixture
def corpus(tmp_path):
    made = Corpus(tmp_path / "corpus", create=True)
    about = About(workload="probe", kernel="6.12", device=["connectx6"], new=[("mlx5_core", 1)])
    made.add(CorpusEntry(Input(load(RULE), "probe"), about))
    what = FindingAbout(
        title="BUG: it is [red]gone[/red]", workload="probe", kernel="6.12", device=["connectx6"]
    )
    made.note_finding(what, RULE, "log")
    lines = [
        {"seconds": second, "blocks": 100 + second, "kept": 1, "findings": 1}
        for second in (1, 2, 4)
    ]
    (made.path / "progress.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return made


def test_show_tells_findings_inputs_and_rate(corpus):
    said = mlx5emu("show", corpus.path)
    assert said.exit_code == 0
    assert "BUG: it is [red]gone[/red]" in said.output
    assert "6.12: 1 input kept" in said.output
    assert "3 runs in 4 s, 0.75 a second; 104 blocks ran" in said.output


def test_report_is_a_mail(corpus):
    (name,) = corpus.findings()
    said = mlx5emu("report", corpus.path / name)
    assert said.exit_code == 0
    assert "Subject: [PATCH net]" in said.output
    assert "BUG: it is [red]gone[/red]" in said.output
    assert f"mlx5emu fuzz replay corpus/{name}" in said.output
    plan = Path(__file__).parents[3] / "examples" / "findings" / "no-ports.toml"
    assert "RDMA/mlx5" in mlx5emu("report", plan).output


def test_report_of_what_is_no_finding(corpus):
    said = mlx5emu("report", corpus.path / "odd")
    assert said.exit_code
    assert "no finding odd" in said.output


def test_merge_into_an_empty_corpus(corpus, tmp_path):
    empty = Corpus(tmp_path / "empty", create=True)
    assert "new: 1 input, 1 finding" in mlx5emu("merge", empty.path, corpus.path).output
    assert "new: 0 inputs, 0 findings" in mlx5emu("merge", empty.path, corpus.path).output


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show", "{}"], "not a corpus"),
        (["merge", "{}", "{}"], "not a corpus"),
        (["replay", "{}/0123456789ab"], "not in a corpus"),
        (["run", "--corpus", "{}/file"], "is a file"),
        (["run", "--corpus", "{}"], "not a corpus"),
        (["run", "--corpus", "{}/new", "--accel", "kvm"], "drop --accel kvm"),
        (
            ["run", "--corpus", "{}/new", "--workload", "live-files"],
            "a kernel of `mlx5emu guide uml`",
        ),
        (["run", "--corpus", "{}/new", "--workload", "dance"], "'dance' is not one of"),
        (
            ["run", "--corpus", "{}/new", "--faults", "{}/file"],
            "--faults: the faults are those of the record, of the corpus",
        ),
        (["run", "--corpus", "{}/new", "--plan", "{}/none"], "no file"),
        (["run", "--corpus", "{}/new", "--plan", "{}/bad"], "no such key"),
        (["run"], "Missing option '--corpus'"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path, words, why):
    (tmp_path / "file").write_text(RULE)
    (tmp_path / "bad").write_text("rules = 1")
    said = mlx5emu(*(word.replace("{}", str(tmp_path)) for word in words))
    assert said.exit_code != 0
    assert why in said.output
    assert "Traceback" not in said.output


@pytest.mark.hostile
def test_a_broken_line_of_progress_is_told_with_its_number(corpus):
    with (corpus.path / "progress.jsonl").open("a") as file:
        file.write("[[[\n")
    said = mlx5emu("show", corpus.path)
    assert said.exit_code == 1
    assert "progress.jsonl:4: not a line" in said.output


class TestReplayedPath:
    """What a shell's completion makes of the corpus."""

    @pytest.fixture
    def executed(self, monkeypatch):
        """The plans that would have been carried out."""
        plans = []

        class Executor:
            def __init__(self, options):
                self.options = options

            def run(self, wanted):
                plans.append(wanted.id)
                return SimpleNamespace(titles=["BUG: it is [red]gone[/red]"], log="log")

            def close(self):
                pass

        monkeypatch.setattr("emu.instruments.fuzz.executor.GuestExecutor", Executor)
        return plans

    @pytest.mark.parametrize(
        "form",
        ["{0}/{1}", "{0}/{1}/", "{0}/inputs/{1}", "{0}/inputs/{1}.toml", "{0}/inputs/{1}.json"],
    )
    def test_of_an_input(self, corpus, executed, form):
        (entry,) = corpus.entries()
        said = mlx5emu("replay", form.format(corpus.path, entry.input.id))
        assert (said.exit_code, executed) == (0, [entry.input.id])

    @pytest.mark.parametrize(
        "form",
        ["{0}/{1}", "{0}/findings/{1}", "{0}/findings/{1}/", "{0}/findings/{1}/plan.toml",
         "{0}/findings/{1}/log.txt"],
    )  # fmt: skip
    @pytest.mark.parametrize("is_relative", [False, True])
    def test_of_a_finding(self, corpus, executed, monkeypatch, form, is_relative):
        (name,) = corpus.findings()
        if is_relative:
            monkeypatch.chdir(corpus.path)
        said = mlx5emu("replay", form.format("." if is_relative else corpus.path, name))
        assert (said.exit_code, len(executed)) == (0, 1)

    def test_from_inside_the_folder(self, corpus, executed, monkeypatch):
        (name,) = corpus.findings()
        monkeypatch.chdir(corpus.path / "findings" / name)
        assert mlx5emu("replay", ".").exit_code == 0

    def test_in_no_corpus(self, tmp_path):
        said = mlx5emu("replay", tmp_path / "inputs" / "x")
        assert said.exit_code == 1
        assert "not in a corpus: no parent folder has fuzz.json" in said.output


def test_a_plan_of_the_library_is_tried(monkeypatch):
    tried = []

    def reproduce(path, options, say, devices):
        tried.append((path.name, devices))
        return library.Trial("its log", (), ("[#1]",))

    monkeypatch.setattr(library, "reproduce", reproduce)
    path = Path(__file__).parents[3] / "examples" / "findings" / "pages-overflow.toml"
    said = mlx5emu("replay", path)
    assert said.exit_code == 1
    assert "did not recur in 3 guests: [#1]" in said.output
    assert tried == [("pages-overflow.toml", ())]

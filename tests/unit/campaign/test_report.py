"""The report: groups, counts, the forms; a hostile guest's words stay words."""

from xml.etree import ElementTree

import pytest
from helpers.campaigns import reported
from helpers.fake_runs import carry_out, descriptions

from emu.campaign.description import Ended, Result, Told
from emu.campaign.report import report
from emu.campaign.store import Store
from emu.outcome import Kind


def results(runs):
    return {run.name: carry_out(run) for run in runs}


def found(run, *titles, kind=Kind.WARNING, lines=()):
    told = tuple(Told(kind=kind, title=title, lines=lines) for title in titles)
    return Result(name=run.name, ended=Ended.FOUND, findings=told)


def test_findings_are_grouped_by_title_the_worst_first():
    runs = descriptions(4, kernels=("a", "b"))
    told = {
        runs[0].name: found(runs[0], "WARNING in x"),
        runs[1].name: found(runs[1], "WARNING in x"),
        runs[2].name: found(runs[2], "kernel BUG in y", kind=Kind.OOPS),
    }
    first, second = report("r", {run.name: run for run in runs}, told).groups
    assert (first.title, first.kernels, first.first) == ("kernel BUG in y", ("a",), runs[2].name)
    assert (second.title, second.kernels, second.plans) == (
        "WARNING in x",
        ("a", "b"),
        ("plan0", "plan1"),
    )
    assert second.runs == (runs[0].name, runs[1].name)


def test_counts_are_by_axis_and_what_is_missing_is_told():
    runs = {run.name: run for run in descriptions(30)}
    some = dict(list(results(runs.values()).items())[:20])
    told = report("r", runs, some)
    assert told.missing == 10
    assert not told.is_good
    assert sum(told.counts()["all"].values()) == 20
    assert sum(counter.total() for counter in told.counts("kernel").values()) == 20
    assert list(told.counts("kernel")) == ["bookworm", "trixie", "sid"]


@pytest.mark.hostile
def test_what_a_guest_says_is_text_in_every_form(tmp_path):
    (run,) = descriptions(1)
    store = Store.create(tmp_path, "r", [run])
    store.put(found(run, "<script>alert(1)</script>", lines=("</pre>&\x07\ufffe",)))
    _, junit, html = reported(store)
    assert "<script>" not in html
    assert "</pre>&" not in html
    (case,) = ElementTree.fromstring(junit).iter("testcase")
    assert case.find("failure") is not None


def test_records_are_linked_where_they_are(tmp_path):
    runs = descriptions(2)
    store = Store.create(tmp_path, "r", runs)
    store.put(found(runs[0], "WARNING in x").model_copy(update={"record": "{}\n"}))
    store.put(found(runs[1], "WARNING in x"))
    _, _, html = reported(store)
    assert f"records/{runs[0].name}.jsonl" in html
    assert f"records/{runs[1].name}.jsonl" not in html

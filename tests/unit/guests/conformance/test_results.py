"""Results as TAP and as JUnit's XML: what other tools read of them."""

from xml.etree import ElementTree

import pytest

from emu.guests.conformance import suite
from emu.guests.conformance.results import Case, Verdict, junit, of_status, tap
from emu.guests.conformance.suite import ModuleRun, SuiteOutcome

CASES = [
    Case("test_qp", "tests.test_qp.QPTest.test_create", Verdict.PASS, seconds=0.25),
    Case("test_qp", "tests.test_qp.QPTest.test_#1", Verdict.SKIP, "no XRC\nhere", 0.5),
    Case("test_cq", "tests.test_cq.test_bad", Verdict.FAIL, "Traceback\n  \x1b[31m<why>&\ufffe", 1),
    Case("test_cq", "tests.test_cq.test_dead", Verdict.ERROR, "", 2),
]


def test_tap_is_what_a_harness_reads():
    assert tap(CASES).splitlines() == [
        "TAP version 13",
        "1..4",
        "ok 1 test_qp: tests.test_qp.QPTest.test_create",
        "ok 2 test_qp: tests.test_qp.QPTest.test_\\#1 # SKIP no XRC\\nhere",
        "not ok 3 test_cq: tests.test_cq.test_bad",
        "# Traceback",
        "#   \\x1b[31m<why>&\ufffe",
        "not ok 4 test_cq: tests.test_cq.test_dead",
    ]


def test_junit_has_a_suite_for_each_group():
    root = ElementTree.fromstring(junit(CASES))
    told = [(suite.get("name"), dict(suite.attrib)) for suite in root]
    assert told == [
        ("test_qp", {"name": "test_qp", "tests": "2", "failures": "0", "errors": "0",
                     "skipped": "1", "time": "0.750"}),
        ("test_cq", {"name": "test_cq", "tests": "2", "failures": "1", "errors": "1",
                     "skipped": "0", "time": "3.000"}),
    ]  # fmt: skip
    assert [[child.tag for child in case] for case in root.iter("testcase")] == [
        [], ["skipped"], ["failure"], ["error"],
    ]  # fmt: skip
    failure = root.find(".//failure")
    assert failure.text == "Traceback\n  \\x1b[31m<why>&"


@pytest.mark.parametrize(
    ("status", "verdict"), [(0, Verdict.PASS), (4, Verdict.SKIP), (1, Verdict.FAIL)]
)
def test_a_commands_status_is_read_as_a_selftests(status, verdict):
    assert of_status("./x -y", status, 1.0).verdict is verdict


def test_each_outcome_of_a_suite_is_a_verdict():
    runs = [ModuleRun("test_x", [suite.TestRun(one.value, one, "", 0.0) for one in SuiteOutcome])]
    found = {case.name: case.verdict for case in suite.cases(runs)}
    assert len(found) == len(SuiteOutcome)
    assert found["crashed"] is found["timeout"] is Verdict.ERROR

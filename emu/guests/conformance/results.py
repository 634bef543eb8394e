"""Results of tests in the formats of other tools: TAP as kselftest writes it, JUnit's XML.

TAP: Test Anything Protocol 13, Documentation/dev-tools/ktap.rst. JUnit: the elements that Jenkins,
GitLab and GitHub's actions show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from xml.etree import ElementTree

from emu.host.printable import one_line, printable

KSFT_SKIP = 4
"""Exit status of a kernel selftest that was skipped (tools/testing/selftests/kselftest.h)."""


class Verdict(Enum):
    """How a test ended; ERROR means that it did not complete."""

    PASS = "pass"
    SKIP = "skip"
    FAIL = "fail"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its group, name, verdict, reason and duration."""

    group: str
    name: str
    verdict: Verdict
    detail: str = ""
    """The reason of the verdict; the first line is a summary."""
    seconds: float = 0.0
    output: str = ""
    """The end of its output."""
    log: str = ""
    """The end of the kernel's log."""


def of_status(words: str, status: int, seconds: float) -> Case:
    """Return a command's result by its exit status: 0 is PASS, 4 (KSFT_SKIP) SKIP, others FAIL.

    ``words`` is the command's text, which becomes the case's name.
    """
    verdict = {0: Verdict.PASS, KSFT_SKIP: Verdict.SKIP}.get(status, Verdict.FAIL)
    detail = "" if status == 0 else f"status {status}"
    return Case("mlx5emu run", words, verdict, detail, seconds)


def tap(cases: Sequence[Case]) -> str:
    """Return the results as TAP 13: SKIP is "ok" with a directive, FAIL and ERROR are "not ok".

    Comment lines after a "not ok" have its reason, output and kernel log.
    """
    lines = ["TAP version 13", f"1..{len(cases)}"]
    for number, case in enumerate(cases, 1):
        ok = "ok" if case.verdict in (Verdict.PASS, Verdict.SKIP) else "not ok"
        # "#" begins a directive.
        name = one_line(f"{case.group}: {case.name}").replace("#", "\\#")
        skip = f" # SKIP {one_line(case.detail)}" if case.verdict is Verdict.SKIP else ""
        lines.append(f"{ok} {number} {name}{skip}")
        if ok == "not ok":
            texts = [case.detail]
            texts += [f"{name}:\n{text}" for name, text in _parts(case) if text]
            lines += [f"# {line}" for text in texts for line in printable(text).splitlines()]
    return "\n".join(lines) + "\n"


def junit(cases: Sequence[Case]) -> str:
    """Return the results as JUnit's XML text: a test suite for each group, in order of appearance.

    Characters that XML forbids are removed.
    """
    root = ElementTree.Element("testsuites")
    for group in dict.fromkeys(case.group for case in cases):
        own = [case for case in cases if case.group == group]
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(group))
        suite.set("tests", str(len(own)))
        for verdict, word in _WORDS.items():
            suite.set(
                f"{word}s" if verdict is not Verdict.SKIP else word, str(_count(own, verdict))
            )
        suite.set("time", f"{sum(case.seconds for case in own):.3f}")
        for case in own:
            suite.append(_element(case))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _parts(case: Case) -> tuple[tuple[str, str], ...]:
    """Return the named texts that a failed test has."""
    return ("output", case.output), ("the kernel's log", case.log)


_WORDS = {Verdict.FAIL: "failure", Verdict.ERROR: "error", Verdict.SKIP: "skipped"}


def _count(cases: Sequence[Case], verdict: Verdict) -> int:
    return sum(case.verdict is verdict for case in cases)


def _element(case: Case) -> ElementTree.Element:
    """Return the ``testcase`` element of a test, with ``failure``, ``error`` or ``skipped``."""
    element = ElementTree.Element("testcase", classname=_xml(case.group), name=_xml(case.name))
    element.set("time", f"{case.seconds:.3f}")
    if case.verdict in _WORDS:
        why = ElementTree.SubElement(element, _WORDS[case.verdict])
        why.set("message", _xml(one_line(case.detail.partition("\n")[0])))
        why.text = _xml(case.detail)
    for name, text in (("system-out", case.output), ("system-err", case.log)):
        if text:
            ElementTree.SubElement(element, name).text = _xml(text)
    return element


def _xml(text: str) -> str:
    """Return the text without the characters that XML forbids: controls, and two more."""
    return printable(text).translate({0xFFFE: None, 0xFFFF: None})

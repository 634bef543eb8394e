"""Runs ``scripts/mutate``: removes one check at a time, and reports the tests that fail."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click
from checks import Mutant, mutants, without
from covered import TIERS, Covered, module_of
from forks import NOT_APPLIED, Forks, Job, pytest_main

FOLDERS = (
    "emu/device/engine",
    "emu/device/objects",
    "emu/device/cmdif",
    "emu/device/port",
    "emu/device/state",
    "emu/device/adapter",
    "emu/device/function",
    "emu/device/pci",
    "emu/device/rounds",
    "firmware_cmds",
)
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
STATE = Path(".mutation")
MAX_TESTS = 25
"""Maximum number of tests for one mutant, unless --most sets another."""
SURVIVED = ""


class Results:
    """Results by the mutant's key: the test that noticed it, or None."""

    def __init__(self, file: Path) -> None:
        self._file = file
        stored = json.loads(file.read_text()) if file.exists() else {}
        self.noticed: dict[str, str] = stored.get("noticed", {})
        self.unfit: set[str] = {*stored.get("unfit", ())}
        """Tests that fail without a change when they are run in a fork."""

    def put(self, mutant: Mutant, by: str) -> None:
        self.noticed[mutant.key] = by
        self._write()

    def distrust(self, tests: Sequence[str]) -> None:
        """Discard the results of these tests, which have to be measured again."""
        self.unfit.update(tests)
        self.noticed = {key: by for key, by in self.noticed.items() if by not in self.unfit}
        self._write()

    def _write(self) -> None:
        stored = {"noticed": self.noticed, "unfit": sorted(self.unfit)}
        self._file.write_text(json.dumps(stored, indent=1))


class Runs:
    """Jobs for some mutants, in an order in which a failing one is early."""

    def __init__(
        self, wanted: Sequence[Mutant], results: Results, most: int, *, again: bool
    ) -> None:
        self._wanted, self._results, self._most = wanted, results, most
        self._again = again
        """Whether quick tests of all kinds have not noticed: tests about the file are run
        instead.
        """
        self._sources = {file: Path(file).read_text() for file in {one.file for one in wanted}}
        self._lines: dict[tuple[str, int], set[str]] | None = None
        self._seconds: dict[str, float] = {}
        self._about: dict[str, Counter[str]] = {}
        self._noticed: dict[str, Counter[str]] = defaultdict(Counter)
        self._left = len(wanted)

    def know(self, covered: Covered) -> None:
        """Set the tests of each line; without it, every collected test is run on each mutant."""
        wanted = {(one.file, one.fires) for one in self._wanted}
        self._lines, self._seconds, self._about = covered.read(wanted)

    def jobs(self, collected: list[str]) -> Iterator[Job | None]:
        """Yield a job for each mutant, and at last one without a change, of the tests that
        failed.
        """
        for mutant in self._wanted:
            tests = self._tests(mutant, collected)
            tests.sort(key=lambda test: -self._noticed[mutant.file][test])
            source = self._sources[mutant.file]
            seconds = 20 + 2 * sum(self._seconds.get(test, 1) for test in tests)
            module = mutant.file, source, without(source, mutant)
            yield Job(tests, *module, seconds, done=partial(self._done, mutant))
        while self._left:
            yield None
        used = {test for counts in self._noticed.values() for test in counts} & {*collected}
        yield Job(sorted(used), seconds=600, stops=False, done=self._are_unfit)

    def _done(self, mutant: Mutant, failed: Sequence[str]) -> None:
        by = failed[0] if failed else SURVIVED
        self._left -= 1
        if by.startswith(NOT_APPLIED):
            click.echo(f"{by}: {mutant}")
            return
        self._noticed[mutant.file][by] += 1
        self._results.put(mutant, by)
        if not by:
            click.echo(f"survives: {mutant}")
        if self._left % 50 == 0:
            click.echo(f"{self._left} left")

    def _are_unfit(self, failed: Sequence[str]) -> None:
        self._results.distrust(failed)
        for test in failed:
            click.echo(f"fails without a change, so its results do not count: {test}")

    def _tests(self, mutant: Mutant, collected: list[str]) -> list[str]:
        """Return quick tests first, alternating among the cases of test functions.

        The second time the order is by modules, the one that runs most of the file first.
        """
        there = {*collected} - self._results.unfit
        if self._lines is None:
            return [test for test in collected if test in there]
        there &= self._lines[mutant.file, mutant.fires]
        about = self._about[mutant.file] if self._again else Counter()
        cases: Counter[str] = Counter()
        ordered = []
        for test in sorted(there, key=lambda test: (self._seconds[test], test)):
            function = test.partition("[")[0]
            module = module_of(test)
            rank = -about[module], module if about else ""
            ordered.append((rank, cases[function], self._seconds[test], test))
            cases[function] += 1
        return [test for *_, test in sorted(ordered)][: self._most]


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@click.option("--cover", is_flag=True, help="Measure again which tests run each line.")
@click.option("--again", is_flag=True, help="Only mutants that no test noticed the last time.")
@click.option("--tests", multiple=True, help="Run all of these tests, whatever lines they cover.")
@click.option(
    "--most", default=MAX_TESTS, show_default=True, help="Maximum number of tests for each mutant."
)
@click.option("--list", "only_list", is_flag=True, help="Print the stored results; run nothing.")
@click.option("--processes", default=2, show_default=True)
def main(
    paths: Sequence[str],
    *,
    cover: bool,
    again: bool,
    tests: Sequence[str],
    most: int,
    only_list: bool,
    processes: int,
) -> None:
    """Remove each check of PATHS, files or folders, and run the tests that cover it.

    Results are kept in .mutation/ from run to run, until a check's function changes.
    """
    files = [str(path) for folder in FOLDERS for path in sorted(Path(folder).rglob("*.py"))]
    every = [one for file in files for one in mutants(file, Path(file).read_text())]
    STATE.mkdir(exist_ok=True)
    results = Results(STATE / "results.json")
    chosen = [one for one in every if not paths or _is_under(one.file, paths)]
    if not only_list:
        reasons = _equivalent(every)
        due = [one for one in chosen if _is_due(one, results, again, reasons)]
        runs = Runs(due, results, most, again=again)
        if not tests:
            covered = Covered(STATE, files)
            if cover:
                covered.take()
            elif not covered.is_current():
                raise click.ClickException("sources have changed: --cover, or --tests")
            runs.know(covered)
        pytest_main(["-s", *(tests or TIERS)], Forks(runs.jobs, at_once=processes))
    report(chosen, results.noticed, _equivalent(every))


def _is_due(mutant: Mutant, results: Results, again: bool, reasons: dict[str, str]) -> bool:
    if mutant.key in reasons:
        return False
    by = results.noticed.get(mutant.key)
    return by is None or (again and by == SURVIVED)


def _is_under(file: str, paths: Sequence[str]) -> bool:
    return any(Path(file).is_relative_to(path) for path in paths)


def _equivalent(every: Sequence[Mutant]) -> dict[str, str]:
    """Return the reasons why a mutant is equivalent to the original, by its key."""
    entries = tomllib.loads(EQUIVALENT.read_text()).get("check", [])
    named = {
        (e["file"], e["function"], e["check"], e.get("term", "")): e["reason"] for e in entries
    }
    reasons = {}
    for one in every:
        name = (one.file, one.function, one.check, one.term)
        if name in named:
            reasons[one.key] = named.pop(name)
    for name in named:
        click.echo(f"{EQUIVALENT.name}: no such check: {name}")
    return reasons


def report(chosen: Sequence[Mutant], noticed: dict[str, str], reasons: dict[str, str]) -> None:
    """Print the survivors, and a line for each folder."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for one in chosen:
        folder = next(folder for folder in FOLDERS if Path(one.file).is_relative_to(folder))
        by = "equal" if one.key in reasons else noticed.get(one.key, "not run")
        kind = {"equal": "equal", "not run": "not run", SURVIVED: "survive"}.get(by, "noticed")
        for row in (folder, "all"):
            rows[row][kind] += 1
        if kind == "survive":
            click.echo(str(one))
    click.echo(f"{'folder':19} noticed  survive      %  equal  not run")
    for folder in (*FOLDERS, "all"):
        row = rows[folder]
        share = 100 * row["survive"] / (row["survive"] + row["noticed"] or 1)
        counts = f"{row['noticed']:7}  {row['survive']:7}  {share:5.1f}"
        click.echo(f"{folder:19} {counts}  {row['equal']:5}  {row['not run']:7}")


if __name__ == "__main__":
    main()

"""rdma-core's conformance tests in a guest, module by module.

The tests are part of Debian's python3-pyverbs; the image has them under ``DIRECTORY``. Most of them
need a capability and skip themselves without it; the reasons for skipping are part of the result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from importlib import resources
from math import isfinite
from typing import Any

from emu.guests.channel import frames
from emu.guests.conformance import crypto
from emu.guests.conformance.results import Case, Verdict
from emu.guests.errors import GuestError, LabError
from emu.guests.guest.guest import Guest
from emu.near import near

DIRECTORY = "/usr/share/rdma-core-tests"
HUGE_PAGES = 64
"""Number of huge pages that the huge-page tests need."""

DEFAULT_TIMEOUT = 60.0
_LIST_SECONDS = 60.0

_MAX_TESTS = 100_000
_MAX_LINE_BYTES = 64 << 10
_MAX_NAME_LENGTH = 500
_MAX_DETAIL_LENGTH = 8000
_LAST_STDERR = 64 << 10
"""Limits on the retained results of a module, since a guest sends them."""

_PREPARE_SECONDS = 120.0

# rdma_cm's tests connect to an address of the port under test: of IPoIB, or of the network
# interface of an Ethernet port, where an MTU of 4200 fits RoCE's path MTU of 4096. A user's own
# kernel may lack IPoIB; these tests then skip themselves. The kernel asks for no router: tests with
# flow rules for all packets count theirs exactly.
_PREPARE = """
modprobe ib_ipoib
number=0
for net in /sys/class/infiniband/*/device/net/*; do
    [ -e "$net" ] || continue
    number=$((number + 1))
    echo 0 > "/proc/sys/net/ipv6/conf/${net##*/}/router_solicitations"
    ip address replace "10.7.$number.1/24" dev "${net##*/}"
    ip address replace "fd00:7:$number::1/64" dev "${net##*/}" nodad
    if [ "$(cat $net/type)" = 1 ]; then ip link set "${net##*/}" mtu 4200; fi
    ip link set "${net##*/}" up
done
for net in /sys/class/infiniband/*/device/net/*; do
    [ -e "$net" ] || continue
    for _ in $(seq 300); do
        if grep -qs 1 "$net/carrier"; then break; fi
        sleep 0.1
    done
done
"""


# The function then belongs to the program that opens its vfio group, not to the kernel.
_HAND_OVER = """
set -e
modprobe vfio_iommu_type1 allow_unsafe_interrupts=1
modprobe vfio-pci
for path in /sys/bus/pci/devices/*; do
    [ "$(cat $path/vendor)" != 0x15b3 ] || last=$path
done
echo vfio-pci > $last/driver_override
[ ! -e $last/driver ] || echo ${last##*/} > $last/driver/unbind
echo ${last##*/} > /sys/bus/pci/drivers_probe
[ "$(readlink -f $last/driver)" = /sys/bus/pci/drivers/vfio-pci ]
echo ${last##*/}
"""


class SuiteOutcome(Enum):
    """How a test ended."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    ERROR = "error"
    CRASHED = "crashed"
    TIMEOUT = "timeout"


_TEST_AND_SET = "before rdma-core 52 the test expects test_and_set to store 0xff instead of 1"
MISTAKEN = {
    "test_flow_table_drop": (
        "in create_devx_flow_table",
        "RDMA flow tables are not offered; the test does not check for them",
    ),
    "test_mlx5vfio_async_event": (
        "in init_dveq_buff",
        "the test takes 8 bytes for a whole event; newer versions of scapy refuse that",
    ),
    "test_mlx5vfio_rc_qp_send_imm_traffic": (
        "Device or resource busy",
        "since rdma-core 59 the test opens the function twice; vfio refuses that",
    ),
    "test_flow_meter": (
        "Reg C is not supported",
        "flow meters are not offered; before rdma-core 57 the test takes that for an error",
    ),
    "test_dm_atomic_ops": ("1 != 255", _TEST_AND_SET),
    "test_parallel_dm_atomic_ops": ("11 != 9", _TEST_AND_SET),
}
"""Mistaken tests: the text of their failure, and the reason to report.

Each uses a feature without checking its capability, or expects behaviour that later versions
correct. A failure with that text counts as skipped; any other one counts as a failure.
"""

BROKEN = (SuiteOutcome.FAILED, SuiteOutcome.ERROR, SuiteOutcome.CRASHED, SuiteOutcome.TIMEOUT)


@dataclass(frozen=True)
class TestRun:
    """One test: its full name, outcome, reason and duration."""

    test: str
    outcome: SuiteOutcome
    detail: str
    seconds: float


@dataclass
class ModuleRun:
    """The results of one module's tests."""

    module: str
    tests: list[TestRun] = field(default_factory=list)

    def count(self, *outcomes: SuiteOutcome) -> int:
        """Return the number of tests with one of these outcomes."""
        return sum(test.outcome in outcomes for test in self.tests)

    def skip_reasons(self) -> list[tuple[str, int]]:
        """Return the reasons of skipped tests with their counts, the most frequent first."""
        reasons = Counter(
            test.detail for test in self.tests if test.outcome is SuiteOutcome.SKIPPED
        )
        return reasons.most_common()

    def as_dict(self) -> dict[str, Any]:
        """Return the module's name, its counts by outcome, and all tests, as values for JSON."""
        tests = [asdict(test) | {"outcome": test.outcome.value} for test in self.tests]
        counts = {outcome.value: self.count(outcome) for outcome in SuiteOutcome}
        return {"module": self.module, "counts": counts, "tests": tests}


def cases(runs: list[ModuleRun]) -> list[Case]:
    """Return every test of the modules for TAP and JUnit; CRASHED and TIMEOUT become ERROR."""
    return [
        Case(run.module, test.test, _VERDICTS[test.outcome], test.detail, test.seconds)
        for run in runs
        for test in run.tests
    ]


_VERDICTS = {
    SuiteOutcome.PASSED: Verdict.PASS,
    SuiteOutcome.SKIPPED: Verdict.SKIP,
    SuiteOutcome.FAILED: Verdict.FAIL,
    SuiteOutcome.ERROR: Verdict.ERROR,
    SuiteOutcome.CRASHED: Verdict.ERROR,
    SuiteOutcome.TIMEOUT: Verdict.ERROR,
}

_NO_RESULT = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""Exceptions of creating a result from values of wrong types."""

Watcher = Callable[[str, int, int], None]
"""Called with the module's name, the number of its finished tests, and their total number."""


def prepare(guest: Guest) -> None:
    """Set up the tests' environment in the guest: addresses, MTU, the adapter's credential.

    Raises CommandFailedError when a script fails. Wait up to 30 s for each interface's carrier; an
    interface without carrier and a missing IPoIB are no errors.
    """
    guest.run(["sh", "-c", _PREPARE], timeout=_PREPARE_SECONDS).check()
    write = f"test -z '{crypto.details()}' || printf %s '{crypto.details()}' > {crypto.PATH}"
    guest.run(["sh", "-c", write], timeout=_PREPARE_SECONDS).check()


def hand_over(guest: Guest) -> str:
    """Unbind the last mlx5 function from its driver, bind it to vfio-pci, return its PCI address.

    Raises CommandFailedError when that fails, for example without an IOMMU. The tests of drivers in
    user space use this function; the others use the first one.
    """
    done = guest.run(["sh", "-c", _HAND_OVER], timeout=_PREPARE_SECONDS).check()
    return done.stdout.strip()


def list_modules(guest: Guest) -> list[str]:
    """Return the sorted names of the test modules in the guest; CommandFailedError if absent."""
    names = guest.run(["ls", DIRECTORY], timeout=_LIST_SECONDS).check().stdout.split()
    return sorted(
        name.removesuffix(".py")
        for name in names
        if name.startswith("test_") and name.endswith(".py")
    )


def choose(modules: list[str], requested: tuple[str, ...]) -> list[str]:
    """Return the ``requested`` modules in the order of ``modules``; all if none is requested.

    Raises LabError for an unknown name.
    """
    names = {name.removeprefix("tests.") for name in requested}  # as the tests' own runner has them
    for name in sorted(names - set(modules)):
        similar = near(name, modules) or f"; there are {', '.join(modules)}"
        raise LabError(f"no test module {name}{similar}")
    return [name for name in modules if name in names] if names else modules


def run_module(
    guest: Guest, module: str, timeout: float, watch: Watcher, pci_dev: str = ""
) -> ModuleRun:
    """Run one module in the guest and return its results; each test may take ``timeout`` seconds.

    ``watch`` is called after each test. ``pci_dev`` is the function that is bound to vfio. Crashes
    and hangs of tests are outcomes, not exceptions. Raises GuestError when the guest fails or the
    program sends invalid, too long or too many results.
    """
    collector = _CaseReader(module, watch)
    program = resources.files("emu.guests.conformance").joinpath("inside.py").read_bytes()
    words = ["python3", "-I", "-", module, "--directory", DIRECTORY, "--timeout", str(timeout)]
    if pci_dev:
        words += ["--pci-dev", pci_dev]
    job = guest.popen(words, has_input=True, sink=collector.take)
    job.write(program)
    job.close_input()
    guest.wait(job, None)
    return collector.finish()


class _CaseReader:
    """Converts the lines of the program in the guest to results."""

    def __init__(self, module: str, watch: Watcher) -> None:
        self._run = ModuleRun(module)
        self._watch = watch
        self._count: int | None = None
        self._pending = b""
        """The beginning of an incomplete line."""
        self._stderr = bytearray()

    def take(self, kind: int, data: bytes) -> None:
        """Process more output: results from standard output, the last lines of standard error.

        Raises GuestError for an invalid result, a line above 64 KiB, and more than 100,000 results.
        """
        if kind != frames.STDOUT:
            self._stderr += data
            del self._stderr[:-_LAST_STDERR]
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        try:
            for line in lines:
                self._event(json.loads(line))
        except _NO_RESULT:
            raise GuestError(f"{self._run.module}: the guest sent an invalid result") from None
        if len(self._pending) > _MAX_LINE_BYTES or len(self._run.tests) > _MAX_TESTS:
            raise GuestError(
                f"{self._run.module}: the guest sent too long a line or too many results"
            )

    def _event(self, event: dict[str, Any]) -> None:
        """Record one event, the number of tests or a test's result; call the watcher.

        A failure that ``MISTAKEN`` lists becomes a skip. Raises one of ``_NO_RESULT`` for wrong
        values.
        """
        if "count" in event:
            self._count = min(max(int(event["count"]), 0), _MAX_TESTS)
            return
        outcome, seconds = SuiteOutcome(event["outcome"]), float(event["seconds"])
        name, detail = (event[key].strip() for key in ("test", "detail"))
        name, detail = name[:_MAX_NAME_LENGTH], detail[:_MAX_DETAIL_LENGTH]
        if not isfinite(seconds):
            raise ValueError
        if outcome in (SuiteOutcome.ERROR, SuiteOutcome.FAILED):
            place, reason = MISTAKEN.get(name.rpartition(".")[2], ("", ""))
            if place and place in detail:
                outcome, detail = SuiteOutcome.SKIPPED, reason
        if outcome in (SuiteOutcome.CRASHED, SuiteOutcome.TIMEOUT):
            detail = f"{detail}\n{self._last_words()}".strip()
        self._run.tests.append(TestRun(name, outcome, detail, seconds))
        self._watch(self._run.module, len(self._run.tests), self._count or 0)

    def finish(self) -> ModuleRun:
        """Return the results, after the program has ended.

        A module without any event gets one CRASHED test with the end of the standard error.
        """
        if not self._run.tests and self._count is None:
            name = f"tests.{self._run.module}"
            self._run.tests.append(TestRun(name, SuiteOutcome.CRASHED, self._last_words(), 0.0))
        return self._run

    def _last_words(self, lines: int = 20) -> str:
        return "\n".join(self._stderr.decode(errors="replace").splitlines()[-lines:])

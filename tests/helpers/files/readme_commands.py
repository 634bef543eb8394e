"""The commands in the pages of examples/, line by line, as somebody would type them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PROGRAMS = ("mlx5emu", "pytest")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_CONTINUED = re.compile(r" *\\\n *")
_COMMENT = re.compile(r"(?:^|\s+)# .*$")
_KERNELS_WORDS = re.compile(r"^(?:CPU: \d|Call Trace:|RIP: |\S+\[\d+\]: segfault )", re.M)

_PINGS = (
    "sh -c 'ibv_rc_pingpong -n 50 -d mlx5_1 & sleep 3; ibv_rc_pingpong -n 50 -d mlx5_0 localhost'"
)
ENDS = {
    "driver-tests": {
        "pytest": (0, "3 passed"),
        "pytest --mlx5-kernel bzImage --mlx5-modules out/lib/modules/7.2.0": (0, "3 passed"),
        "pytest --mlx5-suite bookworm --mlx5-suite sid": (0, "6 passed"),
        "pytest --mlx5-package libfabric-bin": (0, "3 passed"),
        "pytest --mlx5-tap results.tap": (0, "3 passed"),
    },
    "faults": {
        "mlx5emu run --faults examples/faults/probe-create-eq-fails.toml --record record"
        " -- ibv_devinfo": (255, "faults that have fired: rule-1"),
        "mlx5emu replay record -- ibv_devinfo": (255, "No IB devices found"),
        "mlx5emu minimize record -- ibv_devinfo": (0, "[[rule]]"),
        "mlx5emu fault add point=load action=link ms=500": (0, "added-1"),
        "mlx5emu fault list": (0, "added-1"),
    },
    "findings": {
        "mlx5emu fuzz replay examples/findings/pps-event-without-pins.toml":
            (0, "NULL pointer dereference in mlx5_pps_event"),
        "mlx5emu run --faults examples/findings/pps-event-without-pins.toml -- sleep 10":
            (125, "RIP: 0010:mlx5_pps_event"),
        "mlx5emu run --no-probe --faults examples/findings/no-doorbell-pages.toml"
        " -- modprobe mlx5_ib": (125, "RIP: 0010:alloc_bfreg"),
    },
    "links": {
        "mlx5emu run --faults examples/links/wan.toml --device connectx6 --device connectx6"
        f" --record record -- {_PINGS}": (0, "50 iters in"),
        "mlx5emu replay record -- ibv_devinfo": (0, "mlx5_1"),
        "mlx5emu net set function=0 direction=tx delay=10ms loss=1 rate=1gbit": (0, ""),
        "mlx5emu net show": (0, "10ms"),
        "mlx5emu net clear": (0, ""),
    },
    "recipes": {
        "mlx5emu chaos --recipe @rping --only queue-pair-refused": (0, "1 clean error"),
    },
    "sriov": {
        "mlx5emu run --device connectx6dx,vfs=3 --share . -- bash /mnt/share/namespaces.sh":
            (0, "pod0 does not reach pod2"),
        "mlx5emu run --device connectx6dx,vfs=2 --share . -- bash /mnt/share/cni.sh":
            (0, "back: eth1 eth2"),
        "mlx5emu lab up ovs.toml": (0, "h2"),
        "mlx5emu lab exec h1 -- ip netns exec vf0 ping -c 5 -W 20 10.0.1.2": (0, " 0% packet loss"),
        "mlx5emu lab exec h1 -- ip netns exec vf0 ping -c 5 -W 20 10.0.2.1": (0, " 0% packet loss"),
        "mlx5emu lab exec h1 -- ovs-appctl dpctl/dump-flows -m type=offloaded":
            (0, "offloaded:yes"),
        "mlx5emu lab down": (0, ""),
    },
    "switch": {
        "mlx5emu lab up switch.toml": (0, "h2"),
        "mlx5emu lab exec h1 -- devlink port show": (0, "flavour pcisf"),
        "mlx5emu lab exec h1 -- ip netns exec sf1 ping -c 5 -W 20 10.0.1.2": (0, " 0% packet loss"),
        "mlx5emu lab exec h1 -- ip netns exec sf1 ping -c 5 -W 20 10.0.2.1": (0, " 0% packet loss"),
        "mlx5emu lab exec h1 -- ovs-appctl dpctl/dump-flows -m type=offloaded":
            (0, "offloaded:yes"),
        "mlx5emu lab exec h1 -- devlink port function rate add pci/0000:01:00.0/slow tx_max 10mbit":
            (0, ""),
        "mlx5emu lab exec h1 -- devlink port function rate set pci/0000:01:00.0/32768 parent slow":
            (0, ""),
        "mlx5emu lab down": (0, ""),
    },
}  # fmt: skip
"""By page and line: the status, and what is said. tests/guest/lab runs them."""


def pages() -> dict[str, str]:
    """Every page's text by its folder's name; that of examples/ itself by an empty one."""
    found = [EXAMPLES / "README.md", *sorted(EXAMPLES.glob("*/README.md"))]
    return {str(path.parent.relative_to(EXAMPLES)): path.read_text() for path in found}


def commands(text: str) -> list[str]:
    """The commands in a page's blocks, in their order, each on one line and without comments."""
    lines = [line for block in _blocks(text) for line in _CONTINUED.sub(" ", block).splitlines()]
    found = [_COMMENT.sub("", line) for line in lines]
    return [line for line in found if line.strip()]


def _blocks(text: str) -> Iterator[str]:
    """Blocks of commands: those without a language that are not what a kernel has logged."""
    for language, block in _FENCE.findall(text):
        if language in ("", "sh") and not _KERNELS_WORDS.search(block):
            yield block


def words(line: str) -> list[str]:
    """A line's words as a shell takes them, without the comment."""
    return shlex.split(line, comments=True)


def inline(text: str) -> list[str]:
    """Commands in the text, between backticks."""
    return re.findall(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`", text)

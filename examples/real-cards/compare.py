#!/usr/bin/env python3
"""What tools show of the emulated adapters, line by line beside what they show of real cards.

    examples/real-cards/compare.py              boots a guest, writes here.toml and README.md
    examples/real-cards/compare.py --table      writes README.md alone

real.toml has what public dumps of real cards say, here.toml what the adapters show, and
reasons.toml why they are not the same where they are not. Linux 6.12 in both, where it matters.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

if TYPE_CHECKING:
    from emu.guests import Guest

FOLDER = Path(__file__).parent
REAL, HERE, REASONS, PAGE = (
    FOLDER / name for name in ("real.toml", "here.toml", "reasons.toml", "README.md")
)
FAILURES = FOLDER / "failures.py"
"""Requests that fail, for a guest to run."""
SUITE = "trixie"

Facts = dict[str, str]

# -- what tools say, as names and values

_INDENT = re.compile(r"\t*")
_DEPTH_OF_FLAGS, _DEPTH_OF_PORT = 5, 3


def of_devinfo(said: str) -> Facts:
    """Names of a section's lines have its name in front. Flags are in the order of the alphabet."""
    found: Facts = {}
    flags: dict[str, list[str]] = {}
    section = last = ""
    for line in said.splitlines():
        depth, text = len(_INDENT.match(line)[0]), line.strip()  # type: ignore[index]
        name, colon, value = (part.strip() for part in text.partition(":"))
        if depth == _DEPTH_OF_FLAGS:
            if not text.startswith("Unknown flags"):
                flags.setdefault(last, []).append(text)
            continue
        if not colon:
            continue
        if depth == 1:
            section = last = name
        else:
            last = f"{'port' if depth == _DEPTH_OF_PORT else section}.{name}"
        # Tag matching has a max_sge of its own, without a section.
        found.setdefault(last, value.removesuffix("kHZ") if name == "hca_core_clock" else value)
    for name, value in found.items():
        if name.startswith("port.GID"):
            found[name] = value.rpartition(", ")[2]
        elif name.startswith("device_cap_flags"):
            found[name] = ""
    found |= {
        name: (", " if " " in "".join(some) and name.startswith("raw") else " ").join(sorted(some))
        for name, some in flags.items()
    }
    return found


_PCI = {
    "class": (r"^\S+ ([\w ]+): Mellanox", "{0}"),
    "device": (r"^\S+ [\w ]+: Mellanox Technologies (MT\d+ Family \[[^]]+\])", "{0}"),
    "Region 0": (r"Region 0: Memory at \w+ \(([^)]*)\) .*\[size=(\w+)\]", "{0}, {1}"),
    "Interrupt": (r"Interrupt: (pin \w)", "{0}"),
    "Expansion ROM": (r"Expansion ROM at .*\[size=(\w+)\]", "{0}"),
    "DevCap MaxPayload": (r"DevCap:\s+MaxPayload (\d+ bytes)", "{0}"),
    "DevCap latency": (r"DevCap:.*Latency (L0s [^,]*, L1 \w+)", "{0}"),
    "DevCap": (r"(ExtTag.) .*(RBE.) (FLReset.)", "{0} {1} {2}"),
    "LnkCap": (r"LnkCap:.*Speed ([^,]+), Width (\w+)", "{0} {1}"),
    "LnkSta": (r"LnkSta:\s+(Speed \w+).*?(, Width \w+)", "{0}{1}"),
    "LnkCap ASPM": (r"LnkCap:.*ASPM ([^,\n]+)", "{0}"),
    "DevCap2 timeouts": (r"Completion Timeout: Range (\w+)", "{0}"),
    "DevCap2 tags": (r"(10BitTagComp.) (10BitTagReq.)", "{0} {1}"),
    "AtomicOpsCap": (r"AtomicOpsCap: (.*)", "{0}"),
    "AtomicOpsCtl": (r"AtomicOpsCtl: (ReqEn.)", "{0}"),
    "LnkCap2": (r"Supported Link Speeds: ([^,]*)", "{0}"),
    "LnkCap2 retimers": (r"Crosslink. (Retimer.) (2Retimers.)", "{0} {1}"),
    "LnkSta2": (r"(EqualizationComplete.)", "{0}"),
    "MSI-X": (
        r"MSI-X: Enable. (Count=\d+)(?s:.*?)offset=(\w+)\s+PBA: BAR=0 offset=(\w+)",
        "{0}, table {1}, PBA {2}",
    ),
    "vendor specific": (r"Vendor Specific Information: (Len=\w+)", "{0}"),
    "power management": (r"Flags: .*(AuxCurrent=\w+ PME\([^)]*\))", "{0}"),
    "AER": (
        r"\[100 (v\d)\] Advanced Error(?s:.*?)(ECRCGenCap.) (?s:.*?)(ECRCChkCap.)", "{0} {1} {2}",
    ),
}  # fmt: skip
"""What of ``lspci -vvv`` is compared: where it stands, and how it is written."""


def of_lspci(said: str) -> Facts:
    """Of one function: the capabilities in their order, and what ``_PCI`` names."""
    found = {"capabilities": " ".join(re.findall(r"Capabilities: \[(\w+)", said))}
    found["VPD"] = " ".join(re.findall(r"^\s+\[(\w\w)\] ", said, re.M))
    for name, (pattern, form) in _PCI.items():
        if match := re.search(pattern, said, re.M):
            found[name] = form.format(*match.groups())
    return found


_SRIOV = {
    "VFs": r"(VF offset: \d+, stride: \d+, Device ID: \w+)",
    "page sizes": r"(Supported Page Size: \w+, System Page Size: \w+)",
    "VF BAR": r"Migration.*\n(?s:.*?)Region 0: Memory at \w+ \(([^)]*)\)",
    "IOVCap": r"IOVCap:\s+(Migration.)",
    "IOVSta": r"IOVSta:\s+(Migration.)",
    "ARI": r"(ARIHierarchy.)",
    "VF migration": r"VF Migration: (.*)",
}
"""What of the SR-IOV capability is compared, and where it stands."""


def of_sriov(said: str) -> Facts:
    """Of a physical function: what ``_SRIOV`` names."""
    found = {name: re.search(pattern, said) for name, pattern in _SRIOV.items()}
    return {name: one[1] for name, one in found.items() if one}


def of_ip_link(said: str) -> Facts:
    """The settings of the first virtual function."""
    line = next(line for line in said.splitlines() if line.lstrip().startswith("vf 0 "))
    settings = (part.rpartition(" ") for part in line.strip().split(", ")[1:])
    return {name: value for name, _, value in settings}


def of_devlink_port(said: str) -> Facts:
    """What the line of a port says, but for its interface; names of what its function has."""
    first, *others = said.splitlines()
    words = first.partition(": ")[2].split()
    found = dict(zip(words[::2], words[1::2]))
    found.pop("netdev")
    names = [name for line in others[1:] for name in line.split()[::2]]
    return found | {"function": " ".join(names)}


def of_lines(said: str) -> Facts:
    """Names and values with a colon between them."""
    return {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(":") for line in said.splitlines())
        if colon
    }


_LOG = {
    "MLX5E": (r"MLX5E: (StrdRq\(\d\) RqSz\(\d+\) StrdSz\(\d+\))", "{0}"),
    "bandwidth": (r"([\d.]+ Gb/s) available PCIe bandwidth.*?\(([^)]*)\)", "{0} ({1})"),
    "port module": (r"Port module event: module \d, (.*)", "{0}"),
    "rate limit": (r"Rate limit: (.* supported)", "{0}"),
}


def of_dmesg(said: str) -> Facts:
    """What the driver says while it loads."""
    found = {name: re.search(pattern, said) for name, (pattern, _) in _LOG.items()}
    return {name: _LOG[name][1].format(*one.groups()) for name, one in found.items() if one}


def of_failures(said: str) -> Facts:
    """The codes of each failure, and what mlx5_ib says of a responder that refuses its memory."""
    found = {}
    for line in said.splitlines():
        name, colon, value = line.rpartition(": ")
        if colon:
            found["responder of remote memory" if " error" in name else name] = value
    return found


def of_devlink(said: str) -> Facts:
    """The driver, and the names of all versions."""
    path: list[tuple[int, str]] = []
    names = []
    for line in said.splitlines():
        indent = len(line) - len(line.lstrip())
        name, _, value = line.strip().partition(" ")
        path = [(depth, above) for depth, above in path if depth < indent]
        if value and ("versions:" in (above for _, above in path)):
            names.append(f"{path[-1][1]}{name}".replace(":", "."))
        path.append((indent, name))
    driver = re.search(r"driver (\w+)", said)
    return {"names": " ".join(sorted(names)), "driver": driver[1] if driver else ""}


_VF_ON = (
    "pf=/sys/bus/pci/devices/{slot}; echo 0 > $pf/sriov_drivers_autoprobe;"
    " echo 1 > $pf/sriov_numvfs; vf=$(basename $(readlink $pf/virtfn0))"
)
"""Commands that enable a virtual function, without its driver."""
_OFF = "echo 0 > $pf/sriov_numvfs"
_SWITCHDEV = f"{_VF_ON}; devlink dev eswitch set pci/{{slot}} mode switchdev"
_LEGACY = f"devlink dev eswitch set pci/{{slot}} mode legacy; {_OFF}"

Tool = tuple[str, Callable[[str], Facts]]
TOOLS: Mapping[str, Tool] = {
    "ibv_devinfo -v": ("ibv_devinfo -v -d {rdma}", of_devinfo),
    "lspci -vvv": ("lspci -vvv -s {slot}", of_lspci),
    "lspci -vvv, SR-IOV": ("lspci -vvv -s {slot}", of_sriov),
    "lspci -vvv of a VF": (f"{_VF_ON}; lspci -vvv -s $vf; {_OFF}", of_lspci),
    "ip link, VF": (
        f"modprobe ib_ipoib; {_VF_ON}; until ip link show {{nic}} | grep 'vf 0'; do sleep 0.1;"
        f" done; {_OFF}",
        of_ip_link,
    ),
    "devlink port, VF": (
        f"{_SWITCHDEV}; devlink port show | grep -A 2 'pci/{{slot}}.*pcivf'; {_LEGACY}",
        of_devlink_port,
    ),
    "devlink port, uplink": (
        f"{_SWITCHDEV}; devlink port show | grep 'netdev {{nic}} .*physical'; {_LEGACY}",
        of_devlink_port,
    ),
    "ethtool -i": ("ethtool -i {nic}", of_lines),
    "ethtool -k": ("ethtool -k {nic}", of_lines),
    "ethtool --show-priv-flags": ("ethtool --show-priv-flags {nic}", of_lines),
    "devlink dev info": ("devlink dev info pci/{slot}", of_devlink),
    "dmesg": ("dmesg | grep {slot}", of_dmesg),
    "failures": (
        "python3 /tmp/failures.py {rdma}; until dmesg | grep '{rdma}/1: QP .* error: '; do"
        " sleep 0.1; done",
        of_failures,
    ),
}
PLACES = """cd /sys/bus/pci/devices
for rdma in */infiniband/*; do echo $rdma $(ls ${rdma%/*}/../net 2>/dev/null); done"""
"""Each function's address, RDMA device and network interface, in the order of the addresses."""

# -- what is the same, and what is not


def cards() -> list[dict[str, Any]]:
    """Device, tool, source and facts of each dump."""
    found: list[dict[str, Any]] = tomllib.loads(REAL.read_text())["card"]
    return found


def devices() -> list[str]:
    """The models that are compared."""
    return sorted({card["device"] for card in cards()})


_UP = """ip link set {nic} up
until ibv_devinfo -d {rdma} | grep -q PORT_ACTIVE; do sleep 0.1; done"""


def shown(guest: Guest, number: int, tools: Iterable[str]) -> dict[str, Facts]:
    """What a guest's tools show of one of its functions, with its port up."""
    lines = guest.run(PLACES).check().stdout.splitlines()
    path, *nics = lines[number].split()
    where = {"slot": path.split("/")[0], "rdma": path.rpartition("/")[2], "nic": "".join(nics)}
    if nics:
        guest.run(_UP.format(**where)).check()
    guest.run("cat > /tmp/failures.py", stdin=FAILURES.read_bytes()).check()
    return {
        tool: TOOLS[tool][1](guest.run(TOOLS[tool][0].format(**where)).check().stdout)
        for tool in tools
    }


def of_names(card: Mapping[str, Any], all_: Mapping[str, Facts]) -> Facts:
    """What of the facts of an adapter is compared with a card's."""
    found = all_[card["tool"]]
    return {name: found[name] for name in card["facts"] if name in found}


def reason_of(reasons: Iterable[dict[str, Any]], card: Mapping[str, Any], name: str) -> str:
    """Why the values are not the same; empty when nothing is said about it."""
    for one in reasons:
        if (
            fnmatch(card["tool"], one.get("tool", "*"))
            and fnmatch(card["device"], one.get("device", "*"))
            and any(fnmatch(name, pattern) for pattern in one["names"])
        ):
            return str(one["reason"])
    return ""


def differences(card: Mapping[str, Any], here: Facts) -> list[tuple[str, str, str]]:
    """Name, value of the real card and value here of what is not the same."""
    return [
        (name, value, here.get(name, ""))
        for name, value in card["facts"].items()
        if here.get(name, "") != value
    ]


def page(here: Mapping[str, Mapping[str, Facts]]) -> str:
    """The table, in Markdown."""
    reasons = tomllib.loads(REASONS.read_text())["difference"]
    parts = [(FOLDER / "head.md").read_text().rstrip(), ""]
    for card in cards():
        facts, ours = card["facts"], here[card["device"]][card["tool"]]
        rows = differences(card, ours)
        same = f"{len(facts) - len(rows)} of {len(facts)} lines are the same."
        parts += [f"## {card['device']}: {card['tool']}", ""]
        parts += [f"From a {card['source']}:", same, ""]
        if rows:
            parts += ["| line | real | here | why |", "|---|---|---|---|"]
            parts += [
                f"| {name} | {real or '-'} | {ours_ or '-'} | {reason_of(reasons, card, name)} |"
                for name, real, ours_ in rows
            ]
            parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def measure() -> dict[str, dict[str, Facts]]:
    """Boot a guest with one adapter of each kind, and have its tools look at them."""
    from emu.guests import Guest, GuestOptions

    options = GuestOptions(suite=SUITE, devices=tuple(devices()), memory_mib=2048)
    with Guest(options) as guest:
        found: dict[str, dict[str, Facts]] = {}
        for number, device in enumerate(devices()):
            compared = [card for card in cards() if card["device"] == device]
            all_ = shown(guest, number, [card["tool"] for card in compared])
            found[device] = {card["tool"]: of_names(card, all_) for card in compared}
        return found


def main() -> None:
    """Write what the command says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", action="store_true", help="boot no guest: README.md alone")
    if not parser.parse_args().table:
        HERE.write_text(tomli_w.dumps(measure()))
    PAGE.write_text(page(tomllib.loads(HERE.read_text())))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goodput of reliable RDMA against loss: the emulated adapter and Soft-RoCE, on the same links.

    examples/links/goodput.py [--seconds N] [--json FILE] goodput.svg

Two guests, each with one Ethernet adapter. First mlx5_ib has RoCE on it, without and with selective
repeat (register ROCE_ACCL); then it is unloaded and rdma_rxe takes the same interface: the same
links, with the same seed, then lose its packets. The first guest writes into the second one's
memory (ib_write_bw) for some seconds at each loss and delay. The line is a narrow one, so that no
processor is what holds them up. The plot is SVG, made here: a line chart is forty lines, and no
library for it is lighter.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emu.guests import Guest, GuestOptions
from emu.server.control import Client

LOSSES = (0.0, 0.5, 1.0, 2.0, 5.0)
"""In percent, of what each of the two functions sends."""
DELAYS = ("0ms", "10ms")
"""One way."""
RATE = "10mbit"
_LINE = 10e6 / 8 / (1 << 20)
"""MiB/s."""
_REPEAT = "mstreg -d 01:00.0 --reg_id 0x402c --reg_len 0x40 --yes --set 0x0.6:1=1,0x4.6:1=1"
"""selective_repeat_forced_en, and the bit that selects it."""
_PATIENCE = 100
_ADDRESSES = "10.0.0.1", "10.0.0.2"
_UP = """set -e
ip address add {}/24 dev eth0; ip link set eth0 mtu 4200 up
until ip link show eth0 | grep -q LOWER_UP; do sleep 0.1; done"""
_SOFT = """set -e
rmmod mlx5_ib; modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0; sleep 1"""
STACKS = (("adapter", "mlx5_0", ""), ("selective", "mlx5_0", _REPEAT), ("rxe", "rxe0", _SOFT))
"""What each is called, its device, and what brings it up."""
_LISTENS = "until grep -q ':4853 .* 0A ' /proc/net/tcp*; do sleep 0.05; done"

Curves = Mapping[str, Sequence[float]]


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("svg", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=int, default=3, help="for each point; default: 3")
    chosen = parser.parse_args()
    curves = measure(chosen.seconds)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"loss": LOSSES, **curves}, indent=1))
    chosen.svg.write_text(plot(LOSSES, curves))


def measure(seconds: int) -> dict[str, list[float]]:
    """Of each curve, in percent of the line, at each loss."""
    curves: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        options = GuestOptions(
            devices=("connectx6dx",), memory_mib=768, packages=("mstflint",),
            server_options=("--fabric", f"unix:{directory}/fabric"),
        )  # fmt: skip
        guests = [Guest(options), Guest(options)]
        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(Guest.start, guests))
            for guest, address in zip(guests, _ADDRESSES):
                guest.run(_UP.format(address), timeout=_PATIENCE).check()
            for stack, device, bring_up in STACKS:
                for guest in guests:
                    guest.run(bring_up, timeout=_PATIENCE).check()
                for delay in DELAYS:
                    curve = curves[f"{stack}, {delay}"] = []
                    for loss in LOSSES:
                        set_links(guests, loss, delay)
                        curve.append(goodput(guests, device, seconds))
                        sys.stderr.write(f"{stack}, {delay}, {loss} %: {curve[-1]:.0f} %\n")
        finally:
            for guest in guests:
                guest.stop()
    return curves


def set_links(guests: Sequence[Guest], loss: float, delay: str) -> None:
    """Have both guests' packets pass such a link."""
    for guest in guests:
        with Client(guest.control_socket) as control:
            control.set_link(direction="tx", loss=loss, delay=delay, rate=RATE)


def goodput(guests: Sequence[Guest], device: str, seconds: int) -> float:
    """In percent of the line; 0 when the connection fails. At most 32 KiB are in flight."""
    client, server = guests
    command = f"timeout 60 ib_write_bw -F -x 3 -m 1024 -s 8192 -t 4 -D {seconds} -d {device}"
    job = server.popen(f"exec {command}")
    server.run(_LISTENS, timeout=_PATIENCE).check()
    said = client.run(f"{command} {_ADDRESSES[1]}", timeout=_PATIENCE)
    server.wait(job, timeout=_PATIENCE)
    _, _, table = said.stdout.partition("#bytes")
    rows = table.splitlines()
    if said.status or len(rows) < 2:
        return 0.0
    return 100 * float(rows[1].split()[3]) / _LINE


# -- the plot

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 360, 60, 150, 30, 50
_COLOURS = {"adapter": "#1b7837", "selective": "#2166ac", "rxe": "#762a83"}
_DASHES = ("", "6 4", "2 3")


def plot(losses: Sequence[float], curves: Curves) -> str:
    """An SVG of curves in percent."""
    return "\n".join(_svg(losses, curves))


def _svg(losses: Sequence[float], curves: Curves) -> Iterator[str]:
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(loss: float, value: float) -> str:
        x, y = _LEFT + across * loss / max(losses), _TOP + down * (1 - min(value, 100) / 100)
        return f"{x:.1f},{y:.1f}"

    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    yield ' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
    for percent in range(0, 101, 25):
        x, y = at(0, percent).split(",")
        yield f'<path d="M{x},{y}h{across}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{float(y) + 4}" text-anchor="end">{percent} %</text>'
    for loss in losses:
        x = at(loss, 0).split(",")[0]
        if loss in (0, 0.5) or loss >= 1:
            yield f'<text x="{x}" y="{_HEIGHT - 30}" text-anchor="middle">{loss:g}</text>'
    middle = _LEFT + across / 2
    yield f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">packets lost, percent</text>'
    yield f'<text x="{_LEFT}" y="14">goodput, in percent of {RATE}</text>'
    for number, (name, values) in enumerate(curves.items()):
        stack = name.partition(",")[0]
        dash = _DASHES[number % len(DELAYS)]
        style = f'stroke="{_COLOURS[stack]}" stroke-width="2" stroke-dasharray="{dash}" fill="none"'
        points = " ".join(at(loss, value) for loss, value in zip(losses, values))
        yield f'<polyline points="{points}" {style}/>'
        left, top = _WIDTH - _RIGHT + 15, _TOP + 15 + 20 * number
        yield f'<path d="M{left},{top}h25" {style}/>'
        yield f'<text x="{left + 32}" y="{top + 4}">{name}</text>'
    yield "</svg>\n"


if __name__ == "__main__":
    main()

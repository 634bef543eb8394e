"""A server's status as Prometheus's text exposition format, version 0.0.4.

A function's counts begin again when it is reset, as those of any counter may. What is summed over
objects that exist, and goes down when they go, is a gauge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_Sample = tuple[Mapping[str, Any], float]

_COUNTS: Mapping[str, tuple[str, str, str]] = {
    "commands": ("commands_total", "counter", "Firmware commands that were run or refused."),
    "refused": ("commands_refused_total", "counter", "Firmware commands that were refused."),
    "completions": ("completions", "gauge", "CQEs written to the CQs that exist."),
    "error_completions": ("error_completions_total", "counter", "CQEs of failed requests."),
    "compressed_completions": (
        "compressed_completions_total",
        "counter",
        "Packets whose CQEs share an entry with others.",
    ),
    "events": ("events", "gauge", "EQEs written to the EQs that exist."),
    "lost_events": ("lost_events", "gauge", "EQEs that found one of these EQs full."),
    "page_faults": ("page_faults_total", "counter", "Page faults of on-demand paging."),
    "faults_fired": ("faults_fired", "gauge", "How often the loaded fault rules have fired."),
    "sent_packets": ("sent_packets_total", "counter", "Packets that the port has sent."),
    "sent_bytes": ("sent_bytes_total", "counter", "Bytes that the port has sent."),
    "received_packets": (
        "received_packets_total",
        "counter",
        "Packets that the port has received.",
    ),
    "received_bytes": ("received_bytes_total", "counter", "Bytes that the port has received."),
}
"""Keys of a function's counts: the metric's name, its type, and what it is."""


def text(status: Mapping[str, Any]) -> str:
    """The answer to ``status`` (:mod:`emu.server.control.protocol`) as metrics."""
    return "".join(f"{line}\n" for line in _lines(status))


def _lines(status: Mapping[str, Any]) -> Iterator[str]:
    functions = status["functions"]

    def each(value: Any) -> list[_Sample]:
        return [
            ({"function": one["function"], "model": one["model"]}, value(one)) for one in functions
        ]

    def parts(key: str, value: Any) -> list[_Sample]:
        return [
            ({"function": one["function"], key: name}, count)
            for one in functions
            for name, count in value(one).items()
        ]

    yield from _metric("up", "gauge", "Whether the port's link is active.", each(_is_up))
    for key, (name, kind, about) in _COUNTS.items():
        yield from _metric(name, kind, about, each(lambda one, key=key: one["counts"][key]))
    yield from _metric(
        "internal_errors_total", "counter", "Exceptions of the emulator.",
        each(lambda one: one["internal_errors"]),
    )  # fmt: skip
    yield from _metric(
        "fault_rules", "gauge", "Fault rules that are loaded.", each(lambda one: one["faults"])
    )
    yield from _metric(
        "objects",
        "gauge",
        "Objects that exist, by kind.",
        parts("kind", lambda one: one["objects"]),
    )
    yield from _metric(
        "held_bytes", "gauge", "What the host holds for the guest, by kind.",
        parts("kind", lambda one: one["ledger"]["accounts"]),
    )  # fmt: skip
    yield from _segments(status["segments"])


def _is_up(one: Mapping[str, Any]) -> int:
    return int(one["link"] == "ACTIVE")


def _segments(segments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    ports = [
        ({"segment": segment["segment"], "port": port["port"]}, port)
        for segment in segments
        for port in segment["ports"]
    ]
    for key, about in (
        ("received", "Frames that a segment's port has received."),
        ("sent", "Frames that a segment's port has sent."),
    ):
        samples = [(labels, port[key]) for labels, port in ports]
        yield from _metric(f"segment_{key}_frames_total", "counter", about, samples)
    dropped = [
        ({**labels, "reason": reason}, count)
        for labels, port in ports
        for reason, count in port["dropped"].items()
    ]
    about = "Frames that were dropped at a segment's port, by reason."
    yield from _metric("segment_dropped_frames_total", "counter", about, dropped)


def _metric(name: str, kind: str, about: str, samples: Iterable[_Sample]) -> Iterator[str]:
    lines = [f"mlx5emu_{name}{{{_labels(labels)}}} {value}" for labels, value in samples]
    if lines:
        yield f"# HELP mlx5emu_{name} {about}"
        yield f"# TYPE mlx5emu_{name} {kind}"
        yield from lines


def _labels(labels: Mapping[str, Any]) -> str:
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

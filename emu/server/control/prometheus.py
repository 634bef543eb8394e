"""A server's status in Prometheus's text exposition format, version 0.0.4.

A reset of a function restarts its counters, which Prometheus permits. A sum over existing objects
is a gauge, because it falls when objects are destroyed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_Sample = tuple[Mapping[str, Any], float]

_COUNTS: Mapping[str, tuple[str, str, str]] = {
    "commands": ("commands_total", "counter", "Firmware commands executed or refused."),
    "refused": ("commands_refused_total", "counter", "Firmware commands refused."),
    "completions": ("completions", "gauge", "CQEs written to the existing CQs."),
    "error_completions": ("error_completions_total", "counter", "CQEs of failed requests."),
    "compressed_completions": (
        "compressed_completions_total",
        "counter",
        "Packets whose CQE is in a compressed entry.",
    ),
    "events": ("events", "gauge", "EQEs written to the existing EQs."),
    "lost_events": ("lost_events", "gauge", "EQEs lost because one of these EQs was full."),
    "page_faults": ("page_faults_total", "counter", "Page faults of on-demand paging."),
    "faults_fired": ("faults_fired", "gauge", "Times that the loaded fault rules fired."),
    "sent_packets": ("sent_packets_total", "counter", "Packets sent by the port."),
    "sent_bytes": ("sent_bytes_total", "counter", "Bytes sent by the port."),
    "received_packets": (
        "received_packets_total",
        "counter",
        "Packets received by the port.",
    ),
    "received_bytes": ("received_bytes_total", "counter", "Bytes received by the port."),
}
"""Keys of a function's counts: the metric's name, type and help text."""


def text(status: Mapping[str, Any]) -> str:
    """Return the result of ``status`` (:mod:`emu.server.control.protocol`) as metrics, a line each.

    A metric without samples is omitted. Raises KeyError for a result that lacks a key.
    """
    return "".join(f"{line}\n" for line in _lines(status))


def _lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of all metrics, grouped by metric with HELP and TYPE."""
    functions = status["functions"]

    def each(value: Any) -> list[_Sample]:
        return [
            ({"function": function_label(one), "model": one["model"]}, value(one))
            for one in functions
        ]

    def parts(key: str, value: Any) -> list[_Sample]:
        return [
            ({"function": function_label(one), key: name}, count)
            for one in functions
            for name, count in value(one).items()
        ]

    yield from _metric("up", "gauge", "Whether the port's link is active.", each(_is_up))
    for key, (name, kind, about) in _COUNTS.items():
        yield from _metric(name, kind, about, each(lambda one, key=key: one["counts"][key]))
    yield from _metric(
        "internal_errors_total", "counter", "Unexpected exceptions of the emulator.",
        each(lambda one: one["internal_errors"]),
    )  # fmt: skip
    yield from _metric(
        "fault_rules", "gauge", "Loaded fault rules.", each(lambda one: one["faults"])
    )
    yield from _metric(
        "objects",
        "gauge",
        "Existing objects, by kind.",
        parts("kind", lambda one: one["objects"]),
    )
    yield from _metric(
        "held_bytes", "gauge", "Host memory held for the guest, by kind.",
        parts("kind", lambda one: one["ledger"]["accounts"]),
    )  # fmt: skip
    yield from _segments(status["segments"])


def function_label(one: Mapping[str, Any]) -> str:
    """Return the index of a function; for a virtual one its name, such as ``0.vf1``."""
    vf = one.get("vf")
    return str(vf["name"] if vf else one["function"])


def _is_up(one: Mapping[str, Any]) -> int:
    """Return 1 for a link that is up: ACTIVE of an InfiniBand port, UP of an Ethernet port."""
    return int(one["link"] in ("ACTIVE", "UP"))


def _segments(segments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the segments' metrics: frames received, sent, and dropped by reason."""
    ports = [
        ({"segment": segment["segment"], "port": port["port"]}, port)
        for segment in segments
        for port in segment["ports"]
    ]
    for key, about in (
        ("received", "Frames received from a segment's port."),
        ("sent", "Frames sent to a segment's port."),
    ):
        samples = [(labels, port[key]) for labels, port in ports]
        yield from _metric(f"segment_{key}_frames_total", "counter", about, samples)
    dropped = [
        ({**labels, "reason": reason}, count)
        for labels, port in ports
        for reason, count in port["dropped"].items()
    ]
    about = "Frames dropped at a segment's port, by reason."
    yield from _metric("segment_dropped_frames_total", "counter", about, dropped)


def _metric(name: str, kind: str, about: str, samples: Iterable[_Sample]) -> Iterator[str]:
    """Yield HELP, TYPE and one line for each sample; yield no line without samples."""
    lines = [f"mlx5emu_{name}{{{_labels(labels)}}} {value}" for labels, value in samples]
    if lines:
        yield f"# HELP mlx5emu_{name} {about}"
        yield f"# TYPE mlx5emu_{name} {kind}"
        yield from lines


def _labels(labels: Mapping[str, Any]) -> str:
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""Known differences in structures about tag matching, which only user space uses."""

from __future__ import annotations

from layouts.btf.report import Known, What

KNOWN_TAGS: tuple[Known, ...] = (
    Known(
        (),
        What.STRUCTURE,
        "rdma-core's own: requests and completions of a list of tags, headers of its messages",
        ("wqe_tm_seg", "tm_cqe", "cqe_app", "tmh", "rvh"),
    ),
    Known(
        (),
        What.FIELD,
        "UCX names this bit; the kernel leaves it reserved and forwards it",
        ("xrqc.dc",),
    ),
)

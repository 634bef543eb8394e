"""Mistakes of a fault plan, as a user meets them: each program has only what it imports itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

PLAN = """
[[rule]]
point = "cmd"
action = "fail"
match.op = "CREATE_CQ"
match.uidd = 3
[[rule]]
point = "cmd"
action = "fail"
match.opp = "CREATE_CQ"
[[rule]]
point = "cmd"
action = "corrupt"
match.op = "CREATE_CQ"
set.cq_contxt.log_cq_size = 3
[[rule]]
point = "cmd.done"
action = "drop"
match.statu = "OK"
"""
MISTAKES = (
    "6: rule[1].match.uidd: no field of the point cmd, nor of create_cq_in; near it: uid",
    "10: rule[2].match.opp: no field of the point cmd",
    "15: rule[3].set.cq_contxt.log_cq_size: no field of create_cq_in; near it: cq_context",
    "19: rule[4].match.statu: no field of the point cmd.done, nor of any of its ",
)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["fault", "check", "plan.toml"], 1),
        (["run", "--faults", "plan.toml", "--", "true"], 2),
        (["run", "--faults", "plan.toml", "--faults-when", "loaded", "--", "true"], 2),
        (["up", "dev", "--faults", "plan.toml"], 2),
    ],
)
def test_all_mistakes_in_fields_of_commands_before_a_guest_starts(tmp_path, words, status):
    (tmp_path / "plan.toml").write_text(PLAN)
    done = subprocess.run(
        [sys.executable, "-m", "emu", *words],
        capture_output=True, text=True, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    for mistake in MISTAKES:
        assert f"plan.toml:{mistake}" in done.stderr

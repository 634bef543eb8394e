"""The machine whose boot is saved has none of a guest's own devices and files."""

from __future__ import annotations

import pytest

from emu.guests import GuestOptions
from emu.guests.machine import launch


@pytest.mark.parametrize("when", ["loading", "loaded", None])
def test_a_guest_with_a_plan_and_its_start_has_one(tmp_path, monkeypatch, when):
    """`run --faults plan.toml --faults-when loaded` resumes a saved boot."""
    made = []
    monkeypatch.setattr(launch, "machine_for", lambda options, *_, **__: made.append(options))
    plan = tmp_path / "plan.toml"
    plan.touch()
    options = GuestOptions(faults=plan, faults_when=when, record=tmp_path / "record")
    launch.bare_machine(options, tmp_path)
    (bare,) = made
    assert (bare.faults, bare.faults_when, bare.record, bare.devices) == (None, None, None, ())

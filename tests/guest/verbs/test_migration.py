"""Automatic path migration, driven by verbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints, run

pytestmark = pytest.mark.guest

PROGRAM = Path(__file__).parents[1] / "inside" / "migration.py"
PATH_MIG = 6


def test_migration(guest):
    """Packets arm both ends; the other one follows that which migrates by command."""
    guest.run("cat > /tmp/migration.py", stdin=PROGRAM.read_bytes()).check()
    with no_complaints(guest):
        assert run(guest, "python3 /tmp/migration.py").splitlines() == [
            "rearm local", "armed local", "armed local", "migrated global", "migrated global",
            f"event {PATH_MIG}",
        ]  # fmt: skip
        assert "AUTO_PATH_MIG" in run(guest, "ibv_devinfo -v")

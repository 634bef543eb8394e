"""What libmlx5 finds in completions: its own number for a queue, and the data of short messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints, run

pytestmark = pytest.mark.guest

PROGRAM = Path(__file__).parents[1] / "inside" / "completions.py"
LENGTHS = (1, 32, 33, 64, 65)


def places(kind: str, most: int, lengths: tuple[int, ...] = LENGTHS) -> list[str]:
    """Lines of the program, for a completion that has room for so many bytes."""
    return [f"{kind} {n}: {'completion' if n <= most else 'memory'}" for n in lengths]


@pytest.mark.parametrize(("wanted", "room"), [("1", {64: 32, 128: 64}), ("0", {64: 0, 128: 0})])
def test_scatter_to_cqe(guest, wanted, room):
    """As libmlx5 does by default, and when it is told not to."""
    guest.run("cat > /tmp/completions.py", stdin=PROGRAM.read_bytes()).check()
    with no_complaints(guest):
        for size, most in room.items():
            told = run(
                guest,
                f"MLX5_SCATTER_TO_CQE={wanted} MLX5_CQE_SIZE={size} python3 /tmp/completions.py",
            ).splitlines()
            expected = ["version 1", *places("send", most)]
            if size == 64:
                expected += [*places("read", most), *places("atomic", most, (8,))]
            assert told == expected

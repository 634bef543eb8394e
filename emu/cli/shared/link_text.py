"""The properties and packet counts of a link, as text."""

from __future__ import annotations

import json
from typing import Any

from emu.host.printable import one_line


def properties_of(link: dict[str, Any]) -> str:
    """Return a link's properties as KEY=VALUE words; ``-`` for a link that was cleared."""
    words = (f"{key}={json.dumps(value)}" for key, value in link["properties"].items())
    return one_line(" ".join(words).replace('"', "")) or "-"


def counts_of(link: dict[str, Any], unit: str = "") -> str:
    """Return the number of a link's packets, followed by ``unit``, and the counts of outcomes."""
    counts = dict(link["counts"])
    packets = f"{counts.pop('packets', 0):,}{unit}"
    return one_line(", ".join([packets, *(f"{n:,} {why}" for why, n in counts.items())]))

"""Gain of compiled code: the parts in process, compiled and in pure Python, alternately.

The program needs the compiled code in the cache (scripts/setup compiled). The load of the machine
varies from sample to sample, so compare the ratios. Prints a table for each part, or JSON with
--json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click
from figures import Row, Section, ratio_at_least, ratio_at_most
from tables import json_option, run_part, show

from emu.compiled.loading import SETTING, entry
from emu.compiled.sources import DEVICE

COMPILED, PURE = "1", "0"
"""Values of MLX5EMU_COMPILED."""
LEAST = {"engine": 2.2, "ethernet": 2.5}
"""Minimum speed of a part's rows, relative to pure Python."""
PARTS = (*LEAST, "doorbell", "fabric")

Samples = dict[tuple[str, str], list[float]]


def compare(
    part: str, turns: Sequence[tuple[Sequence[Section], Sequence[Section]]]
) -> list[Section]:
    """Return a part's sections with compiled code as ours and pure Python as the other side.

    ``turns`` has the compiled and the pure results of each repetition.
    """
    ours, theirs = (gather([turn[side] for turn in turns]) for side in (0, 1))
    factor = LEAST.get(part)

    def row(section: str, made: Row) -> Row:
        goal = None
        if factor is not None:
            is_rate = made.unit.endswith("/s")
            goal = ratio_at_least(factor) if is_rate else ratio_at_most(round(1 / factor, 2))
        key = section, made.name
        return Row(made.name, made.unit, ours[key], theirs.get(key, ()), goal)

    return [
        replace(
            section,
            rows=[row(section.key, made) for made in section.rows],
            ours="compiled",
            theirs="pure",
            remarks=(),
        )
        for section in turns[0][0]
    ]


def gather(turns: Sequence[Sequence[Section]]) -> Samples:
    """Return all samples of each row."""
    found: Samples = {}
    for sections in turns:
        for section in sections:
            for row in section.rows:
                found.setdefault((section.key, row.name), []).extend(row.samples)
    return found


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--turns", default=3, show_default=True, help="Measurements of each code.")
@json_option
def main(parts: tuple[str, ...], turns: int, as_json: bool) -> None:
    """Measure PARTS (default: all that there are)."""
    if entry(DEVICE.key()) is None:
        raise click.ClickException("no compiled code: run scripts/setup compiled")
    sections = []
    for part in parts or PARTS:
        taken = [
            (run_part(part, **{SETTING: COMPILED}), run_part(part, **{SETTING: PURE}))
            for _ in range(turns)
        ]
        sections += compare(part, taken)
    show(sections, as_json=as_json)


if __name__ == "__main__":
    main()

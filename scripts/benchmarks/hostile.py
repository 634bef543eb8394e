"""Cost of an attacker for the host: fixed attack patterns from guest, wire and client.

Each pattern runs in its own process. The program reports the processor time of the longest round of
the loop. A second result is the peak growth of the process's memory beyond the function's ledger.
Prints a table, or JSON with --json.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

import attacks.boards
import attacks.client
import attacks.endings
import attacks.entries
import attacks.eth
import attacks.gotos
import attacks.guest
import attacks.keys
import attacks.rounds
import attacks.sessions
import attacks.steering
import attacks.streams
import attacks.subnets
import attacks.tags
import attacks.trains
import attacks.tunnels
import attacks.uplinks
import attacks.wire
import click
from attacks.watch import PATTERNS, Seen, observe
from figures import Goal, Row, Section
from tables import json_option, show

MAX_MS = 50.0
MAX_MIB = 256.0
PATIENCE_S = 900.0
"""Limit of wall-clock seconds: on a busy machine a pattern takes much longer than its processor
time.
"""

_MODULES = (
    attacks.guest, attacks.keys, attacks.wire, attacks.eth, attacks.client, attacks.rounds,
    attacks.streams, attacks.trains, attacks.tunnels, attacks.entries, attacks.sessions,
    attacks.tags, attacks.uplinks, attacks.boards, attacks.gotos, attacks.endings,
    attacks.steering, attacks.subnets,
)  # fmt: skip
"""Modules whose import adds their patterns to the table."""


def _in_child(title: str, result: Connection) -> None:
    logging.disable(logging.CRITICAL)
    result.send(observe(PATTERNS[title]))


def run(title: str) -> Seen | None:
    """Run a pattern in its own process; None if it fails or does not end."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(title, there))
    child.start()
    there.close()
    try:
        return here.recv() if here.poll(PATIENCE_S) else None
    except EOFError:
        return None
    finally:
        child.kill()
        child.join()


def measure(titles: Sequence[str], repeat: int) -> list[Section]:
    """Return both tables: rounds and memory."""
    rounds, memory = [], []
    for title in titles:
        click.echo(f"hostile: {title}", err=True)
        seen = [one for one in (run(title) for _ in range(repeat)) if one is not None]
        longest = [one.longest_ms for one in seen]
        rounds.append(Row(title, "ms", longest, goal=Goal(MAX_MS)))
        memory.append(Row(title, "MiB", [one.above_mib for one in seen], goal=Goal(MAX_MIB)))
    return [
        Section("hostile rounds", "Hostile patterns: the longest round", rounds),
        Section("hostile memory", "Hostile patterns: memory above the ledger", memory),
    ]


@click.command(help=__doc__)
@click.option("--only", default="", help="Patterns whose title has these words.")
@click.option("--repeat", default=1, show_default=True, help="Runs of each pattern.")
@click.option("--list", "listed", is_flag=True, help="Print the titles.")
@json_option
def main(only: str, repeat: int, listed: bool, as_json: bool) -> None:
    """Measure."""
    titles = [title for title in PATTERNS if only.lower() in title.lower()]
    if listed:
        click.echo("\n".join(titles))
        sys.exit()
    show(measure(titles, repeat), as_json=as_json)


if __name__ == "__main__":
    main()

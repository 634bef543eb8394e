"""``mlx5emu lab``: several guests from one file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from emu.cli.commands.guests.cp import max_size_option
from emu.cli.commands.guests.down import end_all, find_whole
from emu.cli.options.guest import places_of, prepare, tell_begin, trace_of
from emu.cli.runs.execute import command_options, execute
from emu.cli.shared.control import console
from emu.cli.shared.files import ExampleFile
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.notice import notice
from emu.cli.shared.progress import working
from emu.cli.shared.tables import Rows
from emu.guests.errors import GuestError, LabError
from emu.guests.guest.states import UP
from emu.guests.named import attach, daemon, hosts, running, topology
from emu.guests.named.copying import copy_in, copy_out
from emu.host.printable import one_line

_FILE = ExampleFile("lab", resolve_path=True)
_LAB = click.option("--lab", metavar="NAME", help="Name of the lab; needed if several run.")


@click.group(cls=NamedGroup, short_help="Start and use several guests from one file.")
def lab() -> None:
    """Start several guests from one file, run commands in them, stop them.

    Example: mlx5emu lab up @roce
    """


@lab.command(short_help="Start the guests of a lab file.")
@click.option(
    "--keep", is_flag=True, help="Keep the guests running if one of their commands fails."
)
@click.argument("file", type=_FILE)
def up(file: Path, keep: bool) -> None:
    """Start the guests of a lab file (TOML) and run their commands.

    One server emulates the functions of all guests. FILE may be @NAME, an example; `mlx5emu guide
    lab` describes it. If a command fails, the remaining commands of its guest are skipped and all
    guests stop; with --keep they stay.

    Example: mlx5emu lab up @roce
    """
    requested = topology.read(file, _checks())
    if requested.faults is not None:
        tell_begin(requested.faults, requested.faults_when)
    prepare(*(node.options for node in requested.nodes))
    places = places_of({node.name: node.options for node in requested.nodes})
    info = {"lab": True, "file": str(file), "devices": requested.devices, **places}
    info |= trace_of(requested.trace)
    waiting = working(f"booting {len(requested.nodes)} guests")
    names = [node.name for node in requested.nodes]
    example = f"mlx5emu exec {requested.name}/{names[0]} -- COMMAND"
    failed: list[GuestError] = []
    complain = failed.append if keep else None
    try:
        daemon.launch(
            requested.name,
            info,
            lambda stack: hosts.start(requested, stack, complain),
            waiting,
            failed,
        )
    except GuestError:
        if keep and running.is_held(requested.name):
            click.echo(f"{requested.name} is still up: {', '.join(names)}; {example}")
        raise
    click.echo(f"{requested.name} is up: {', '.join(names)}; {example}")
    for name in names:
        if name != requested.name and running.is_held(name):
            notice(f"{name} is another guest: use {requested.name}/{name}")


@lab.command(
    "exec",
    short_help="Run a command in a guest of the lab.",
    context_settings={"allow_interspersed_args": False},
)
@_LAB
@command_options
def execute_in(lab: str | None, name: str, **choices: Any) -> None:
    """Run COMMAND as root in the lab's guest NAME; see `mlx5emu exec`.

    Example: mlx5emu lab exec first -- ibv_devinfo
    """
    execute(_in_lab(name, lab), **choices)


@lab.command(short_help="Copy files to or from every guest.")
@_LAB
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.argument("target")
@max_size_option
def cp(lab: str | None, sources: tuple[str, ...], target: str, max_size: int) -> None:
    """Copy to every guest of the lab, or from every guest: `lab cp FILE... :PATH`.

    `lab cp :PATH... DIRECTORY` copies from each guest to the folder DIRECTORY/GUEST. PATH and the
    rules of copying are those of `mlx5emu cp`.

    Example: mlx5emu lab cp :/etc/hostname names
    """
    are_ours = {not source.startswith(":") for source in sources}
    if are_ours != {target.startswith(":")}:
        raise click.UsageError("either TARGET or every SOURCE must be in the guests, as :PATH")
    entry = _lab(lab)
    with working(f"copying: {', '.join(entry.guests)}"):
        for guest in entry.guests:
            name = f"{entry.name}/{guest}"
            if target.startswith(":"):
                _copy_in(name, sources, target[1:] or ".")
            else:
                _copy_out(name, sources, Path(target, guest), max_size << 20)


@lab.command(short_help="Show the states of the lab's guests.")
@_LAB
@click.option("--json", "as_json", is_flag=True, help="Print the states as JSON.")
def status(lab: str | None, as_json: bool) -> None:
    """Show the state, kernel and memory of each guest of the lab.

    Example: mlx5emu lab status
    """
    entry = _lab(lab)
    columns = ("guest", "state", "kernel", "memory used")
    rows = [(name, *_state(f"{entry.name}/{name}")) for name in entry.guests]
    if as_json:
        click.echo(json.dumps([dict(zip(columns, row)) for row in rows], indent=1))
        return
    table = Rows(*columns)
    for row in rows:
        table.add(*map(one_line, row))
    console().print(table)


@lab.command(short_help="Stop all guests of a lab.")
@click.argument("name", required=False)
def down(name: str | None) -> None:
    """Stop all guests of a lab at once; the exit status is that of `mlx5emu down`.

    Example: mlx5emu lab down roce
    """
    end_all([_lab(None) if name is None else find_whole(name)])


def _copy_in(name: str, sources: Sequence[str], target: str) -> None:
    """Copy files into a guest; with several sources ``target`` is a directory."""
    for source in sources:
        copy_in(name, Path(source), target if len(sources) == 1 else f"{target}/", notice)


def _copy_out(name: str, sources: Sequence[str], folder: Path, max_size: int) -> None:
    """Create ``folder`` and copy ``sources`` of a guest into it, each up to ``max_size`` bytes.

    A failure removes new folders that are still empty.
    """
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for source in sources:
            copy_out(name, source[1:] or ".", folder, notice, max_size)
    except BaseException:
        for one in made:
            with contextlib.suppress(OSError):
                one.rmdir()
        raise


def _checks() -> topology.Checks:
    """Return the parsers of the server's values for ``topology.read``, imported only here."""
    from emu.server.net.eth.spec import parse as net
    from emu.server.service.devicespec import parse_all as devices
    from emu.server.service.listening import check_fabric, check_uplinks
    from emu.server.service.plan_files import read_plan

    def nets(texts: Sequence[str]) -> None:
        check_uplinks([net(text) for text in texts])

    return topology.Checks(devices, nets, check_fabric, read_plan)


def _state(name: str) -> tuple[str, str, str]:
    """Return a guest's state, kernel release, and the guest's own memory use ("N of M MiB").

    The last two are empty for a guest that is not up, and for an unexpected answer of one that is.
    The state is "down: ERROR" if the command in an up guest fails.
    """
    words = ["sh", "-c", 'uname -r; free -m | awk \'/^Mem/ {print $3, "of", $2, "MiB"}\'']
    state = attach.state_of(name)
    if state != UP:
        return state, "", ""
    with contextlib.suppress(ValueError):
        try:
            release, memory = attach.output_of(name, words).decode(errors="replace").splitlines()
        except LabError as error:
            return f"down: {error}", "", ""
        return state, release, memory
    return state, "", ""


def _in_lab(name: str, lab: str | None) -> str:
    """Return LAB/GUEST for the guest ``name`` of ``lab``, by default the only lab that runs.

    Raises UsageError for LAB/GUEST of another lab than ``lab``, and LabError of :func:`_lab`.
    """
    given, slash, guest = name.partition("/")
    if not slash:
        return f"{_lab(lab).name}/{name}"
    if lab is not None and lab != given:
        raise click.UsageError(f"{name} is not in the lab {lab}: give {guest}, or drop --lab {lab}")
    return name


def _lab(name: str | None) -> running.RunningEntry:
    """Return the lab ``name``, by default the only one that runs.

    Raises LabError if no lab or several labs run.
    """
    if name is not None:
        return running.find(name)
    labs = [entry for entry in running.entries() if entry.info.get("lab")]
    if len(labs) != 1:
        names = ", ".join(entry.name for entry in labs)
        raise LabError(
            f"several labs run; choose one: {names}"
            if labs
            else "no lab runs; start one with mlx5emu lab up FILE"
        )
    return labs[0]

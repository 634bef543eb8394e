"""``mlx5emu fault``: the rules of a server that runs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from emu.cli.runs.fired import tell_idle
from emu.cli.shared.completion import complete_point, complete_rule
from emu.cli.shared.control import connect, console, control_option, guest_argument, named
from emu.cli.shared.files import ExampleFile
from emu.cli.shared.tables import Rows
from emu.cli.shared.words import moment, table_of
from emu.guests.errors import LabError
from emu.guests.named import running
from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.near import near

_PLAN = ExampleFile("plan")


@click.group()
def fault() -> None:
    """Make the functions of a running guest fail, and see what has failed.

    `mlx5emu guide faults` is about plans, `mlx5emu guide @faults` has all points and actions.
    """


@fault.command()
@click.argument("name", default="", metavar="[POINT]", shell_complete=complete_point)
@click.argument("field", default="", metavar="[FIELD]")
def points(name: str, field: str) -> None:
    """List the points where a rule can strike, or what it can match and do at POINT.

    With FIELD, list the names that match.FIELD can have: mlx5emu fault points pkt.rx kind
    """
    from emu.device.faults.schema import POINTS

    if name and name not in POINTS:
        raise UserError(f"no point {name!r}{near(name, POINTS)}; there are {', '.join(POINTS)}")
    if field:
        click.echo("\n".join(_values(name, field)))
        return
    if name:
        table = _uses(name)
    else:
        table = Rows("point", "an event")
        for point in POINTS.values():
            table.add(point.name, _plain(point.about))
    console().print(table)


def _values(name: str, field: str) -> list[str]:
    """Return the names that a field of a point's events can have. Raises UserError."""
    from emu.device.faults.enum_names import names_of
    from emu.device.faults.parameters import listing
    from emu.device.faults.schema import POINTS

    fields = POINTS[name].fields
    declared = fields.get(field.removeprefix("match."))
    if declared is None:
        raise UserError(f"no field {field!r} at {name}{near(field, fields)}{listing([*fields])}")
    if names := names_of(declared.kind):
        return names
    return ["a number, or a range like 4..7" if declared.kind is int else "any name"]


def _uses(name: str) -> Rows:
    """The actions at a point, below the fields of its events."""
    from emu.device.faults.schema import ACTIONS, POINTS
    from emu.device.faults.table import fields_of

    title = f"match: {_plain(fields_of(POINTS[name])) or '-'}"
    table = Rows("action", "what happens", "needs", "takes", title=title)
    for action in ACTIONS.values():
        if (use := action.uses.get(name)) is not None:
            parameters = (", ".join(one.name for one in part) for part in (use.needs, use.takes))
            table.add(action.name, _plain(use.about), *parameters)
    return table


@fault.command()
@click.argument("file", metavar="PLAN", type=_PLAN)
def check(file: Path) -> None:
    """Check a plan without a guest: print its mistakes, or its rules and when it begins."""
    from emu.server.service.plan_files import read_plan

    plan = read_plan(file)
    click.echo(f"{len(plan.rule)} rules, {len(plan.link)} links; begins {moment(plan.begins)}")


def _plain(text: str) -> str:
    return text.replace("`", "")


@fault.command()
@control_option
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[NAME] KEY=VALUE...",
    shell_complete=complete_rule,
)
def add(words: tuple[str, ...], control: Path | None) -> None:
    """Add a rule: mlx5emu fault add dev point=cmd action=fail match.op=CREATE_CQ times=1

    NAME is the guest that it is for; without, the only one that runs.
    """
    name, words = named(words, control, lambda word: "=" not in word and len(words) > 1)
    table = table_of(words, "rule")
    with connect(control, name) as client:
        added = client.add(table)
        rules = [rule for rule in client.rules() if rule["name"] == added]
    click.echo(added)
    tell_idle(rules)


@fault.command("list")
@guest_argument
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print what the server says.")
def list_(name: str | None, control: Path | None, as_json: bool) -> None:
    """Show the rules of the guest NAME; without NAME, of the only one that runs.

    Told are events matched, times fired, times without effect, events held back, and whether more
    can come. An action that changes nothing, such as an event that no queue takes, has not fired. A
    rule waits for its time (after), is armed while it can fire, and in force while what it has
    begun goes on.
    """
    with connect(control, name) as client:
        rules = client.rules()
    if as_json:
        click.echo(json.dumps(rules, indent=1))
        return
    columns = ("rule", "point", "action", "matched", "fired", "no effect", "held back", "now")
    has_guests = any(count.get("guest") for rule in rules for count in rule["counts"])
    table = Rows(*columns, *["guests"] * has_guests)
    for rule in rules:
        about = rule["rule"]
        sums = (str(_sum(rule, name)) for name in ("met", "fired", "without_effect", "held"))
        words = (one_line(rule["name"]), about["point"], about["action"])
        table.add(*words, *sums, _now(rule), *[_guests(rule)] * has_guests)
    console().print(table)


def _guests(rule: Mapping[str, Any]) -> str:
    """Return the names of the guests whose functions a rule is for."""
    return one_line(", ".join(dict.fromkeys(count["guest"] for count in rule["counts"])))


def _sum(rule: Mapping[str, Any], name: str) -> int:
    """One of a rule's counts, over all functions."""
    return sum(count[name] for count in rule["counts"])


def _now(rule: Mapping[str, Any]) -> str:
    """What may still come of a rule."""
    if _sum(rule, "in_force"):
        return "in force"
    if _sum(rule, "armed"):
        return "armed"
    return "waits" if _sum(rule, "waits") else "-"


@fault.command()
@control_option
@click.argument("names", nargs=-1, metavar="[NAME] RULE...")
@click.option("--all", "all_rules", is_flag=True, help="Every rule.")
def remove(names: tuple[str, ...], control: Path | None, all_rules: bool) -> None:
    """Take rules away; what they have begun ends.

    NAME is the guest that they are in; without, the only one that runs. A single word is a rule's
    name, unless --all is given.
    """
    name, names = named(names, control, lambda _: all_rules or (len(names) > 1 and _runs(names[0])))
    if bool(names) == all_rules:
        raise click.UsageError("the names of rules, or --all")
    with connect(control, name) as client:
        if all_rules:
            client.clear()
        for rule in names:
            client.remove(rule)


def _runs(name: str) -> bool:
    """Return whether a guest or lab of that name runs."""
    with contextlib.suppress(LabError):
        running.resolve(name)
        return True
    return False


@fault.command()
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] PLAN")
def load(words: tuple[str, ...], control: Path | None) -> None:
    """Replace all rules of the guest NAME by those of PLAN, which begins now.

    Without NAME it is about the only guest that runs. PLAN may be @NAME, an example's. A
    plan that is for a driver that loads has its effect when the driver is loaded the next time.
    """
    from emu.device.faults.plan import LOADING
    from emu.server.service.plan_files import read_plan_text

    name, words = named(words, control, lambda _: len(words) > 1)
    if len(words) != 1:
        raise click.UsageError("one PLAN")
    path = _PLAN.convert(words[0], None, click.get_current_context())
    plan, text = read_plan_text(path)  # its mistakes come with the file's name
    with connect(control, name) as client:
        count = client.load_plan(text)
        rules = client.rules()
    click.echo(f"{count} rules")
    tell_idle(rules)
    if LOADING in (plan.when, plan.expect.when if plan.expect is not None else None):
        click.echo(
            "mlx5emu: this plan is for a driver that loads: reload it"
            " (modprobe -r mlx5_ib mlx5_core; modprobe mlx5_ib)", err=True,
        )  # fmt: skip

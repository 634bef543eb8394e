"""``mlx5emu fault``: fault rules of a running device server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emu.cli.runs.fired import tell_idle
from emu.cli.shared.completion import complete_point, complete_rule
from emu.cli.shared.control import (
    connect,
    console,
    control_option,
    guest_argument,
    named,
    runs_as,
)
from emu.cli.shared.files import ExampleFile
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.notice import notice
from emu.cli.shared.tables import Rows
from emu.cli.shared.words import moment, table_of
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.near import near

if TYPE_CHECKING:
    from emu.device.faults.registry import DeclaredPoint

_PLAN = ExampleFile("plan")
_NUMBER = "a number, or a range such as 4..7"


@click.group(cls=NamedGroup, short_help="Inject faults into functions of a running guest.")
def fault() -> None:
    """Inject faults into the functions of a running guest, and show their effect.

    `mlx5emu guide faults` describes fault plans; `mlx5emu guide @faults` lists points and actions.

    Example: mlx5emu fault add dev point=cmd action=fail match.op=CREATE_CQ
    """


@fault.command(short_help="List fault points, or the fields of one.")
@click.argument("name", default="", metavar="[POINT]", shell_complete=complete_point)
@click.argument("field", default="", metavar="[FIELD]")
def points(name: str, field: str) -> None:
    """List the points at which a rule can act, or the fields and actions of POINT.

    With FIELD, list the values of match.FIELD, or of an action's parameter such as syndrome. With
    the name of a command, or of an event's type, list the fields of its structure.

    Example: mlx5emu fault points cmd CREATE_CQ
    """
    import firmware_cmds  # noqa: F401  # declares the commands, whose fields rules match
    from emu.device.faults.schema import POINTS

    if name and name not in POINTS:
        raise UserError(f"no point {name!r}{near(name, POINTS)}; points are {', '.join(POINTS)}")
    if field:
        click.echo("\n".join(_values(name, field)))
        return
    if name:
        table = _uses(name)
    else:
        table = Rows("point", "event")
        for point in POINTS.values():
            table.add(point.name, _plain(point.about))
    console().print(table)


def _values(name: str, field: str) -> list[str]:
    """Return the named values of a field of a point's events, or a sentence about its numbers.

    Raises UserError for an unknown field.
    """
    from emu.device.faults.enum_names import names_of
    from emu.device.faults.parameters import listing
    from emu.device.faults.schema import POINTS

    point = POINTS[name]
    fields, word = point.fields, field.removeprefix("match.")
    declared = fields.get(word)
    if declared is None:
        if found := [*_of_structure(point, word)] or _names_of_parameter(name, word):
            return found
        words = [*fields, *(one for known in fields.values() for one in names_of(known.kind))]
        why = f"no field {field!r} at {name}{near(word, words)}{listing([*fields])}"
        raise UserError(why + (f", and {_plain(point.opened.about)}" if point.opened else ""))
    if names := names_of(declared.kind):
        return names
    return [_NUMBER if declared.kind is int else "any name"]


def _names_of_parameter(name: str, word: str) -> list[str]:
    """Return the named values of a parameter of a point's actions; empty without any."""
    from emu.device.faults.schema import ACTIONS

    uses = [action.uses[name] for action in ACTIONS.values() if name in action.uses]
    known = [one for use in uses for one in use.parameters if one.name == word]
    return [*dict.fromkeys(value for one in known for value in one.names)]


def _of_structure(point: DeclaredPoint, word: str) -> Iterator[str]:
    """Yield the fields of the structure that a value of a field determines, such as a command.

    For the name of such a field yield a sentence about its numbers, for other words nothing.
    """
    from emu.device.faults.enum_names import names_of
    from emu.device.faults.parameters import has_field, paths_in

    if (opened := point.opened) is None:
        return
    if any(has_field(layout, word.removeprefix(opened.prefix)) for layout in opened.layouts({})):
        yield f"{_NUMBER} ({_plain(opened.about)})"
        return
    for field in point.fields.values():
        if word in names_of(field.kind):
            layouts, known = opened.layouts({field.name: word}), opened.layouts({})
            # All structures are in question where none is known for the word.
            for layout in layouts if len(layouts) < len(known) or len(known) == 1 else ():
                yield from (opened.prefix + path for path in paths_in(layout))
            return


def _uses(name: str) -> Rows:
    """Return a table of a point's actions, with the fields of its events as the title."""
    from emu.device.faults.schema import ACTIONS, POINTS
    from emu.device.faults.table import fields_of

    title = f"match: {_plain(fields_of(POINTS[name])) or '-'}"
    table = Rows("action", "effect", "required", "optional", title=title)
    for action in ACTIONS.values():
        if (use := action.uses.get(name)) is not None:
            parameters = (", ".join(one.name for one in part) for part in (use.needs, use.takes))
            table.add(action.name, _plain(use.about), *parameters)
    return table


@fault.command(short_help="Check a fault plan without a guest.")
@click.argument("file", metavar="PLAN", type=_PLAN)
def check(file: Path) -> None:
    """Check a plan without a guest; print its mistakes, or its size and when it begins.

    Example: mlx5emu fault check plan.toml
    """
    from emu.server.service.plan_files import read_plan

    plan = read_plan(file)
    rules, links = counted(len(plan.rule), "rule"), counted(len(plan.link), "link")
    click.echo(f"{rules}, {links}; begins {moment(plan.begins)}")


def _plain(text: str) -> str:
    return text.replace("`", "")


@fault.command(short_help="Add a fault rule.")
@control_option
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[NAME] KEY=VALUE...",
    shell_complete=complete_rule,
)
def add(words: tuple[str, ...], control: Path | None) -> None:
    """Add a fault rule to the guest NAME, by default the only one that runs.

    Prints the rule's name, for `fault remove`. Keys are those of a rule in a plan: point, action
    and its parameters, match.FIELD, function=0 or 0.vf1, times, probability, interval, index.
    `mlx5emu fault points POINT` lists fields, actions and parameters.

    Example: mlx5emu fault add dev point=cmd action=fail match.op=CREATE_CQ
    """
    name, words = named(words, control, lambda word: "=" not in word and len(words) > 1)
    table = table_of(words, "rule", "point=cmd action=fail", runs_as)
    with connect(control, name) as client:
        added = client.add(table)
        rules = [rule for rule in client.rules() if rule["name"] == added]
    guests = [guest for rule in rules for guest in _guests(rule)]
    click.echo(f"{added} ({', '.join(guests)})" if len(guests) > 1 else added)
    tell_idle(rules)


@fault.command("list", short_help="Show the fault rules and their counts.")
@guest_argument
@control_option
@click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")
def list_(name: str | None, control: Path | None, as_json: bool) -> None:
    """Show the fault rules of the guest NAME, by default the only one that runs.

    Columns are events matched, times fired, times without effect, events held back, and the rule's
    state. An action without effect, such as an event without a queue, does not count as fired. A
    rule waits until its time (after), is armed while it can fire, and is in force while its effect
    lasts.

    Example: mlx5emu fault list dev
    """
    with connect(control, name) as client:
        rules = client.rules()
    if as_json:
        click.echo(json.dumps(rules, indent=1))
        return
    columns = ("rule", "point", "action", "matched", "fired", "no effect", "held back", "now")
    has_guests = any(map(_guests, rules))
    table = Rows(*columns, *["guests"] * has_guests)
    for rule in rules:
        about = rule["rule"]
        sums = (str(_sum(rule, name)) for name in ("met", "fired", "without_effect", "held"))
        words = (one_line(rule["name"]), about["point"], about["action"])
        table.add(*words, *sums, _now(rule), *[", ".join(_guests(rule))] * has_guests)
    console().print(table)


def _guests(rule: Mapping[str, Any]) -> list[str]:
    """Return the names of the guests whose functions a rule is for; none without names."""
    names = (count.get("guest") for count in rule["counts"])
    return [*map(one_line, dict.fromkeys(filter(None, names)))]


def _sum(rule: Mapping[str, Any], name: str) -> int:
    """Return one of a rule's counts, summed over all functions."""
    return sum(count[name] for count in rule["counts"])


def _now(rule: Mapping[str, Any]) -> str:
    """Return the state of a rule over all functions: "in force", "armed", "waits", or "-"."""
    if _sum(rule, "in_force"):
        return "in force"
    if _sum(rule, "armed"):
        return "armed"
    return "waits" if _sum(rule, "waits") else "-"


@fault.command(short_help="Remove fault rules.")
@control_option
@click.argument("names", nargs=-1, metavar="[NAME] RULE...")
@click.option("--all", "all_rules", is_flag=True, help="Remove every rule.")
def remove(names: tuple[str, ...], control: Path | None, all_rules: bool) -> None:
    """Remove rules and end their effects.

    NAME is the guest, by default the only one that runs. A single word is the name of a rule; with
    --all it is the guest.

    Example: mlx5emu fault remove dev --all
    """
    if len(names) == 1 and not all_rules and control is None and runs_as(names[0]):
        raise click.UsageError(f"{names[0]} is a guest: add the names of its rules, or --all")
    name, names = named(
        names, control, lambda _: all_rules or (len(names) > 1 and runs_as(names[0]))
    )
    if bool(names) == all_rules:
        raise click.UsageError("give the names of rules, or --all")
    with connect(control, name) as client:
        if all_rules:
            client.clear()
        for rule in names:
            client.remove(rule)


@fault.command(short_help="Replace all fault rules by a plan.")
@control_option
@click.argument("words", nargs=-1, required=True, metavar="[NAME] PLAN")
def load(words: tuple[str, ...], control: Path | None) -> None:
    """Replace all rules of the guest NAME by those of PLAN, which begins at once.

    NAME defaults to the only guest that runs. PLAN may be @NAME, an example. A plan for a loading
    driver takes effect when the driver is next loaded.

    Example: mlx5emu fault load dev @command-never-answered
    """
    from emu.device.faults.plan import LOADING
    from emu.server.service.plan_files import read_plan_text

    name, words = named(words, control, lambda _: len(words) > 1)
    if len(words) != 1:
        raise click.UsageError("give exactly one PLAN")
    path = _PLAN.convert(words[0], None, click.get_current_context())
    plan, text = read_plan_text(path)  # reports mistakes with the file's name
    with connect(control, name) as client:
        count = client.load_plan(text)
        rules = client.rules()
    click.echo(counted(count, "rule"))
    tell_idle(rules)
    if LOADING in (plan.when, plan.expect.when if plan.expect is not None else None):
        notice(
            "this plan is for a loading driver; reload the driver"
            " (modprobe -r mlx5_ib mlx5_core; modprobe mlx5_ib)"
        )

"""What a shell completes beside options and files: models, kernels, objects, commands, fault rules.

Shells hand over a word in different ways: bash takes ``=`` for a word of its own, so that
``point=cm`` comes as ``point``, ``=`` and ``cm``, and wants ``cmd``; others want ``point=cmd``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from emu.cli.shared.names import complete_guest
from emu.guests.kernel.archive import PREFIX

Complete = Callable[[click.Context, click.Parameter, str], list[Any]]
"""As click's ``shell_complete``."""

_ARCHIVE = ("rt", "cloud")
"""Kernels of the archive that have a name; others are versions."""


def complete_device(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """A function's specification: its model, then settings."""
    from emu.device.models import LINKS, MODELS
    from emu.device.models.crypto import KEY_IMPORTS
    from emu.server.service.devicespec import SETTINGS

    model, comma, rest = start.partition(",")
    if not comma:
        return _beginning(start, MODELS)
    settings = [f"{key}=" for key in SETTINGS if key not in ("link", "crypto")]
    settings += [f"crypto={way}" for way in KEY_IMPORTS]
    settings += [f"link={link.name.lower()}" for link in LINKS.get(model, ())]
    before, _, last = rest.rpartition(",")
    front = f"{model},{before}," if before else f"{model},"
    return [front + setting for setting in _beginning(last, settings)]


def complete_kernel(
    _ctx: click.Context, _param: click.Parameter, start: str
) -> list[CompletionItem]:
    """Names of the archive's kernels, beside files."""
    names = _beginning(start, [f"{PREFIX}{name}" for name in _ARCHIVE])
    return [*map(CompletionItem, names), CompletionItem(start, type="file")]


def complete_kind(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Kinds of objects."""
    from emu.device.objects.object import Object, kinds_below
    from emu.device.state import tables  # noqa: F401  (declares the kinds)

    return _beginning(start, sorted(kinds_below(Object)))


def complete_op(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """PRM commands, with commas between them."""
    from layouts.enums import Op

    return _listed(start, [op.name for op in Op])


def complete_trace_point(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Points of a trace, with commas between them."""
    from emu.device.trace.event import TracePoint

    return _listed(start, list(TracePoint))


def complete_point(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Fault points."""
    from emu.device.faults.schema import POINTS

    return _beginning(start, POINTS)


def complete_rule(ctx: click.Context, param: click.Parameter, start: str) -> list[str]:
    """The words of a rule, ``KEY=VALUE``; the guest's name may be before them."""
    words = tuple(ctx.params.get(param.name or "") or ())
    if words and not start and (known := _values(words[-1], words)):
        return known  # click has taken a lone = for nothing
    if words[-1:] == ("=",):
        return _beginning(start, _values(words[-2], words)) if len(words) > 1 else []
    key, equals, value = start.partition("=")
    if equals:
        return [f"{key}={known}" for known in _beginning(value, _values(key, words))]
    guests = [] if words else complete_guest(ctx, param, start)
    return guests + _beginning(start, [f"{key}=" for key in _keys(words)])


def _keys(words: tuple[str, ...]) -> list[str]:
    """The keys that a rule may have, as far as its words say what it is about."""
    from emu.device.faults.rule import Rule
    from emu.device.faults.schema import ACTIONS, POINTS

    point, action = POINTS.get(_said("point", words)), ACTIONS.get(_said("action", words))
    keys = [key for key in Rule.model_fields if key != "match"]
    if point is not None:
        keys += [f"match.{field}" for field in point.fields]
        if action is not None and (use := action.uses.get(point.name)) is not None:
            keys += [one.name for one in use.parameters]
    return keys


def _values(key: str, words: tuple[str, ...]) -> list[str]:
    """The values that a key can have, where they have names."""
    from emu.device.faults.enum_names import names_of
    from emu.device.faults.schema import ACTIONS, POINTS

    point = POINTS.get(_said("point", words))
    if key == "point":
        return list(POINTS)
    if key == "action":
        return [name for name, one in ACTIONS.items() if point is None or point.name in one.uses]
    if point is not None and key.startswith("match."):
        field = point.fields.get(key.removeprefix("match."))
        return [] if field is None else names_of(field.kind)
    return []


def _said(key: str, words: tuple[str, ...]) -> str:
    """The value that a key has among words that came in either way; empty if there is none."""
    for at, word in enumerate(words):
        if word.startswith(f"{key}="):
            return word.removeprefix(f"{key}=")
        if word == key and words[at + 1 : at + 2] == ("=",):
            return "".join(words[at + 2 : at + 3])
    return ""


def _listed(start: str, names: Iterable[str]) -> list[str]:
    """The last of several names with commas between them."""
    before, comma, last = start.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(last, names)]


def _beginning(start: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]

"""Shell completion of models, kernels, objects, commands and fault rules.

Shells split words differently: bash splits at ``=``, passes ``point=cm`` as ``point``, ``=`` and
``cm``, and expects ``cmd``. Other shells expect ``point=cmd``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from emu.cli.shared.names import complete_guest
from emu.guests.kernel.archive import FLAVOURS, PREFIX

Complete = Callable[[click.Context, click.Parameter, str], list[Any]]
"""Type of click's ``shell_complete``."""


def complete_device(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Return completions of a function's model, or of the settings after it and a comma."""
    from emu.device.models import LINKS, MODELS
    from emu.device.models.crypto import KEY_IMPORTS
    from emu.server.service.devicespec import SETTINGS

    model, comma, rest = start.partition(",")
    if not comma:
        return _beginning(start, MODELS)
    settings = [f"{key}=" for key in SETTINGS if key not in ("link", "crypto")]
    settings += [f"crypto={how}" for how in KEY_IMPORTS]
    settings += [f"link={link.name.lower()}" for link in LINKS.get(model, ())]
    before, _, last = rest.rpartition(",")
    front = f"{model},{before}," if before else f"{model},"
    return [front + setting for setting in _beginning(last, settings)]


def complete_kernel(
    _ctx: click.Context, _param: click.Parameter, start: str
) -> list[CompletionItem]:
    """Return completions of the archive's kernels, and one for files."""
    names = _beginning(start, [f"{PREFIX}{name}" for name in FLAVOURS])
    return [*map(CompletionItem, names), CompletionItem(start, type="file")]


def complete_kind(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Return completions of the kinds of objects, with ``-`` for spaces, which end a word."""
    from emu.server.service.views import kinds

    return _beginning(start, sorted(kind.replace(" ", "-") for kind in kinds()))


def complete_op(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Return completions of PRM commands in a list with commas."""
    from layouts.enums.cmd import Op

    return _listed(start, [op.name for op in Op])


def complete_trace_point(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Return completions of trace points in a list with commas."""
    from emu.device.trace.event import TracePoint

    return _listed(start, list(TracePoint))


def complete_point(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Return completions of fault points."""
    from emu.device.faults.schema import POINTS

    return _beginning(start, POINTS)


def complete_rule(ctx: click.Context, param: click.Parameter, start: str) -> list[str]:
    """Return completions of a rule's words ``KEY=VALUE``, and of the guest before them.

    Values are completed for ``point``, ``action`` and ``match.FIELD``.
    """
    words = tuple(ctx.params.get(param.name or "") or ())
    if words and not start and (known := _values(words[-1], words)):
        return known  # click drops a lone "="
    if words[-1:] == ("=",):
        return _beginning(start, _values(words[-2], words)) if len(words) > 1 else []
    key, equals, value = start.partition("=")
    if equals:
        return [f"{key}={known}" for known in _beginning(value, _values(key, words))]
    guests = [] if words else complete_guest(ctx, param, start)
    return guests + _beginning(start, [f"{key}=" for key in _keys(words)])


def _keys(words: tuple[str, ...]) -> list[str]:
    """Return the keys that a rule may have, given its point and action."""
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
    """Return the named values that a key can have; empty for other keys, and for unknown points."""
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
    """Return the value of a key among words, split at "=" or not; empty without one."""
    for at, word in enumerate(words):
        if word.startswith(f"{key}="):
            return word.removeprefix(f"{key}=")
        if word == key and words[at + 1 : at + 2] == ("=",):
            return "".join(words[at + 2 : at + 3])
    return ""


def _listed(start: str, names: Iterable[str]) -> list[str]:
    """Return completions of the last name in a list with commas."""
    before, comma, last = start.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(last, names)]


def _beginning(start: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]

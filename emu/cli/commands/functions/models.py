"""``mlx5emu models``: the adapters that can be emulated."""

from __future__ import annotations

import click
from rich import box
from rich.console import Console
from rich.table import Table

from emu.device.models import DEFAULT_MODEL, LINKS, MODELS, Model


@click.command("models")
def command() -> None:
    """List the adapters that can be emulated."""
    table = Table(box=box.SIMPLE_HEAD, caption=f"default: {DEFAULT_MODEL}")
    for column in ("Model", "PCI id", "Kind", "Adapter", "Firmware", "Link"):
        table.add_column(column, no_wrap=True)
    for model in MODELS.values():
        table.add_row(*_row(model))
    Console().print(table)


def _row(model: Model) -> tuple[str, ...]:
    identity = model.identity
    return (
        model.name,
        f"{identity.vendor_id:04x}:{identity.device_id:04x}",
        "VF" if identity.is_vf else "PF",
        model.title,
        model.firmware,
        " or ".join(linked.link for linked in LINKS[model.name].values()),
    )

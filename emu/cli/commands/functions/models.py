"""``mlx5emu models``: lists the adapters that can be emulated."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from emu.cli.shared.control import console
from emu.cli.shared.tables import Rows
from emu.device.models import DEFAULT_MODEL, LINKS, MODELS, Model


@click.command("models", short_help="List the adapters that can be emulated.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(as_json: bool) -> None:
    """List the adapters that can be emulated.

    Example: mlx5emu models
    """
    rows = [_row(model) for model in MODELS.values()]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Rows(*rows[0])
    for row in rows:
        table.add(*row.values())
    console().print(table)
    click.echo(f"default: {DEFAULT_MODEL}")


def _row(model: Model) -> Mapping[str, str]:
    """Return a model's row of the table and of the JSON list."""
    identity = model.identity
    return {
        "model": model.name,
        "PCI id": f"{identity.vendor_id:04x}:{identity.device_id:04x}",
        "kind": "VF" if identity.is_vf else "PF",
        "adapter": model.title,
        "firmware": model.firmware,
        "link": " or ".join(linked.link for linked in LINKS[model.name].values()),
    }

"""``--net``, which ``serve`` has and everything that boots a guest."""

from __future__ import annotations

import click

net_option = click.option(
    "--net",
    "nets",
    multiple=True,
    metavar="UPLINK",
    help="Where the segment of Ethernet functions leads: user[,mtu=N][,forward=tcp:PORT:PORT], "
    "stream=PATH, tap=NAME; may be repeated.",
)

"""The options of every command that boots a guest."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from emu.cli.options.net import net_option
from emu.cli.shared.files import NewFile
from emu.cli.shared.progress import display
from emu.guests.archive.names import DEFAULT_SUITE, SUITES
from emu.guests.image import image
from emu.guests.kernel.choice import choose
from emu.guests.machine import qemu
from emu.guests.options import (
    ACCELERATORS,
    DEFAULT_BOOT_TIMEOUT,
    DEFAULT_CPUS,
    DEFAULT_DEVICE,
    MOST_ICOUNT,
    GuestOptions,
)
from emu.server.net.eth import passt
from emu.server.net.eth.spec import parse as parse_net
from emu.server.service.trace_file import DEFAULT_MIB as DEFAULT_TRACE_MIB

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True)
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True)
_NEW_DIRECTORY = click.Path(file_okay=False, writable=True, path_type=Path, resolve_path=True)
_NEW_FILE = NewFile(resolve_path=True)


def _shared(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[Path, bool] | None:
    """``DIR`` or ``DIR:rw``: the directory, and whether the guest may write there."""
    if value is None:
        return None
    # A directory whose own name ends so is still found.
    writable = value.endswith(":rw") and not Path(value).is_dir()
    path = _DIRECTORY.convert(value.removesuffix(":rw") if writable else value, param, ctx)
    return Path(os.fsdecode(path)), writable


_OPTIONS = (
    click.option(
        "--suite",
        type=click.Choice(SUITES),
        default=DEFAULT_SUITE,
        show_default=True,
        help="Debian suite of the guest.",
    ),
    click.option(
        "--package",
        "packages",
        multiple=True,
        metavar="NAME",
        help="A Debian package that the guest has as well; may be repeated.",
    ),
    click.option(
        "--kernel",
        "kernels",
        multiple=True,
        metavar="WHAT",
        help="Instead of the suite's: a bzImage, a build tree, Debian packages (repeat it), or "
        "debian:rt, debian:cloud, debian:VERSION from the archive.",
    ),
    click.option(
        "--modules",
        type=_DIRECTORY,
        help="Modules of a bzImage: a build tree, or lib/modules/RELEASE.",
    ),
    click.option(
        "--device",
        "devices",
        multiple=True,
        metavar="SPEC",
        help=f"An emulated function; may be repeated.  [default: {DEFAULT_DEVICE}]",
    ),
    click.option("--no-device", is_flag=True, hidden=True, help="Boot without any function."),
    click.option(
        "--share",
        metavar="DIR[:rw]",
        callback=_shared,
        help="A directory to see at /mnt/share, read-only; with :rw the guest may write there.",
    ),
    click.option(
        "--out",
        type=_NEW_DIRECTORY,
        help="Where the guest's /mnt/out is on the host; made when absent.",
    ),
    click.option(
        "--network", is_flag=True, help="A virtio network card, the host's network behind it."
    ),
    click.option("--trace", type=_NEW_FILE, help="Record what the functions do in this file."),
    click.option(
        "--trace-limit",
        type=click.IntRange(1),
        metavar="MIB",
        help=f"End the trace when the file has this size.  [default: {DEFAULT_TRACE_MIB}]",
    ),
    click.option(
        "--pcap", type=_NEW_FILE, help="Write what passes the functions' ports in this file."
    ),
    click.option(
        "--pcap-messages",
        is_flag=True,
        help="Send RDMA messages between this guest's functions as packets, for --pcap.",
    ),
    click.option("--faults", type=_FILE, help="Make the functions fail as this plan says."),
    click.option("--record", type=_NEW_FILE, help="Where the record of the faults goes."),
    click.option("--transport", metavar="NAME", help="How the functions are served."),
    click.option(
        "--fabric",
        metavar="NAME",
        help="unix:PATH or tcp:HOST:PORT: where functions of other guests are as well.",
    ),
    net_option,
    click.option(
        "--memory",
        "memory_mib",
        type=int,
        default=2048,
        show_default=True,
        metavar="MIB",
        help="Memory of the guest.",
    ),
    click.option(
        "--cpus",
        type=int,
        metavar="N",
        help=f"Processors.  [default: {DEFAULT_CPUS}; 1 with --icount]",
    ),
    click.option(
        "--icount",
        type=click.IntRange(0, MOST_ICOUNT),
        metavar="SHIFT",
        help="Let the processor's clock count instructions, 2^SHIFT ns each: runs differ less.",
    ),
    click.option(
        "--hugepages", type=int, default=0, metavar="N", help="Huge pages of 2 MiB to set aside."
    ),
    click.option(
        "--probe/--no-probe",
        default=True,
        show_default=True,
        help="Load the mlx5 driver while booting.",
    ),
    click.option(
        "--accel",
        "accelerator",
        type=click.Choice(ACCELERATORS),
        default="auto",
        show_default=True,
        help="KVM, emulation, or what works.",
    ),
    click.option(
        "--boot-timeout",
        type=click.FloatRange(min=1),
        default=DEFAULT_BOOT_TIMEOUT,
        show_default=True,
        metavar="S",
        help="How long the guest may take until it accepts commands; a busy host needs more.",
    ),
    click.option(
        "--kernel-arg",
        "kernel_arguments",
        multiple=True,
        metavar="ARG",
        help="Add to the kernel's command line; may be repeated.",
    ),
)


_DUMP = click.option(
    "--dump", type=_NEW_FILE, help="Where the guest's memory goes if it panics, for crash and drgn."
)


def dump_option(function: F) -> F:
    """Add --dump, for a guest that does not own our terminal."""
    return _DUMP(function)


def guest_options(function: F) -> F:
    """Add the options to a command; it gets them as keywords for :func:`to_options`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def to_options(
    devices: tuple[str, ...],
    no_device: bool,
    transport: str | None,
    fabric: str | None,
    nets: tuple[str, ...],
    trace_limit: int | None,
    pcap: Path | None,
    pcap_messages: bool,
    share: tuple[Path, bool] | None,
    out: Path | None,
    kernels: tuple[str, ...],
    modules: Path | None,
    **rest: Any,
) -> GuestOptions:
    """The choices as :class:`GuestOptions`, which checks them; a plan is checked here.

    Raises UserError: nothing has started yet, so a mistake is told at once, and a missing passt.
    """
    rest["cpus"] = rest["cpus"] or (DEFAULT_CPUS if rest["icount"] is None else 1)
    if rest.get("faults") is not None:
        from emu.server.service.fault_session import (
            read_plan,  # takes a tenth of a second, which few runs need
        )

        read_plan(rest["faults"])
    if any(parse_net(net).kind == "user" for net in nets):
        passt.program()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    if kernels:
        with display() as (progress, on_wait):
            chosen = choose(kernels, rest["suite"], progress, on_wait)
        rest["kernel"], modules = chosen.kernel, modules or chosen.modules
    rest |= {"out": out, "share": share and share[0], "share_writable": bool(share and share[1])}
    rest["modules"] = modules
    options = GuestOptions(devices=() if no_device else devices or (DEFAULT_DEVICE,), **rest)
    named = {
        "--transport": transport,
        "--fabric": fabric,
        "--trace-limit": str(trace_limit) if trace_limit else None,
        "--pcap": str(pcap) if pcap else None,
    }
    words = [word for name, value in named.items() if value is not None for word in (name, value)]
    words += ["--pcap-messages"] * pcap_messages
    words += [word for net in nets for word in ("--net", net)]
    return dataclasses.replace(options, server_options=tuple(words))


def prepare(*options: GuestOptions) -> None:
    """Build and fetch what the guests need and the cache lacks, and show how far it is."""
    with display() as (progress, on_wait):
        qemu.ensure(progress, on_wait)
        for suite, packages in dict.fromkeys((one.suite, one.packages) for one in options):
            image.ensure(suite, packages, progress, on_wait)


def described(options: GuestOptions) -> dict[str, Any]:
    """What `mlx5emu ps` tells of a guest."""
    return {"suite": options.suite, "devices": options.devices}

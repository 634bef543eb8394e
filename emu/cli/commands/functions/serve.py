"""``mlx5emu serve``: serves functions on sockets, for a QEMU that the user starts."""

from __future__ import annotations

import contextlib
import json
import logging
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from emu.cli.options.declared import offered
from emu.cli.options.groups import DEVICES, TRACES, grouped_option
from emu.cli.shared.attached import attached, example
from emu.cli.shared.completion import complete_device
from emu.cli.shared.files import ExampleFile, NewFile, check_apart
from emu.cli.shared.params import NearChoice, WholeNumber
from emu.compiled import building
from emu.device.function.function import Function
from emu.guests.options import option_named
from emu.host.listening import OWNER_ONLY
from emu.host.printable import printable
from emu.host.user_error import UserError
from emu.server.net.eth.spec import parse as parse_net
from emu.server.net.fabric.address import unix_path
from emu.server.net.pcap.file import DEFAULT_MIB
from emu.server.service.collector import short_collections
from emu.server.service.devicespec import SETTINGS, DeviceSpecError, parse_all
from emu.server.service.endpoints import (
    ServedDevice,
    check_vfs,
    function_number,
    names_of_guests,
    with_vfs,
)
from emu.server.service.fault_options import FaultOptions
from emu.server.service.listening import check_uplinks
from emu.server.service.log_lines import filtered
from emu.server.service.pcap import PcapOptions
from emu.server.service.server import Server
from emu.server.service.subnet_file import read_topology
from emu.server.service.trace_file import DEFAULT_FORM, FORMS, Trace
from emu.server.service.trace_file import DEFAULT_MIB as DEFAULT_TRACE_MIB
from emu.server.service.transports import TRANSPORTS, VHOST_USER
from emu.server.vfio.base import TransportError
from emu.server.vfio.kinds import DEFAULT_KIND
from emu.version import PURE, code, code_line

if TYPE_CHECKING:
    from emu.device.faults.plan import Plan


class _Lines(logging.Formatter):
    """Formats log lines; control characters from guests, clients and peers are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _RefusedError(click.ClickException):
    """An option names a model, file or address that cannot be used."""

    exit_code = click.UsageError.exit_code


def _mode(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """Return an octal mode that lets the owner connect (0200 set).

    Raises BadParameter for others.
    """
    try:
        mode = int(value, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777 or not mode & stat.S_IWUSR:
        raise click.BadParameter(f"{value!r} is not an octal mode up to 0777 that includes 0200")
    return mode


@cloup.command(short_help="Serve emulated functions to a QEMU.")
@grouped_option(
    DEVICES,
    "--socket",
    "sockets",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Socket to listen on; repeat for each device. Virtual functions listen beside it, on"
    " SOCKET.vf0, SOCKET.vf1 ...",
)
@grouped_option(
    DEVICES,
    "--device",
    "devices",
    multiple=True,
    metavar="SPEC",
    shell_complete=complete_device,
    help="Emulated function, in order of the sockets: MODEL of `mlx5emu models`, then ,KEY=VALUE "
    f"with keys {', '.join(SETTINGS)}.  [default: connectx6]",
)
@grouped_option(
    DEVICES,
    "--transport",
    type=NearChoice(TRANSPORTS),
    default=DEFAULT_KIND,
    show_default=True,
    help="Implementation of vfio-user, for QEMU; or vhost-user, for User-Mode Linux.",
)
@offered(option_named("fabric"))
# The command itself opens them, also a shell's <(...) and >(...), which a resolved path loses.
@offered(option_named("subnet"), ExampleFile("subnet"))
@offered(option_named("nets"))
@grouped_option(
    DEVICES,
    "--socket-mode",
    callback=_mode,
    default=f"{OWNER_ONLY:04o}",
    show_default=True,
    metavar="OCTAL",
    help="Mode of the sockets; users with write permission can connect.",
)
@grouped_option(
    TRACES,
    "--trace",
    type=NewFile(),
    help="Record commands, register accesses, events and interrupts in this file.",
)
@grouped_option(
    TRACES,
    "--trace-format",
    type=NearChoice(list(FORMS)),
    default=DEFAULT_FORM,
    show_default=True,
    help="json for mlx5emu trace, text for reading.",
)
@grouped_option(
    TRACES,
    "--trace-limit",
    type=WholeNumber(1),
    default=DEFAULT_TRACE_MIB,
    show_default=True,
    metavar="MIB",
    help="End the trace when the file has this size, in MiB.",
)
@grouped_option(
    TRACES,
    "--faults",
    type=ExampleFile("plan"),
    metavar="FILE",
    help="Fault plan (TOML); @NAME is one of `mlx5emu guide @faults`.",
)
@grouped_option(
    TRACES,
    "--faults-when",
    type=NearChoice(["loading"]),
    help="Begin the plan at once, even if it is for a driver that is up.",
)
@grouped_option(
    TRACES,
    "--record",
    type=NewFile(),
    help="Record every fault that fires in this file.",
)
@click.option(
    "--control",
    metavar="SOCKET",
    type=NewFile(),
    help="Control socket, for status, top, objects, fault, net and subnet.",
)
@offered(option_named("pcap"), NewFile())
@grouped_option(
    TRACES,
    "--pcap-limit",
    type=WholeNumber(1),
    default=DEFAULT_MIB,
    show_default=True,
    metavar="MIB",
    help="End the capture when the file has this size, in MiB.",
)
@offered(option_named("pcap_messages"))
@grouped_option(
    DEVICES,
    "--guest",
    "guests",
    multiple=True,
    metavar="NAME",
    help="Name of the function's guest, for status and traces; repeat for each socket.",
)
@click.option(
    "--run",
    "run_json",
    default="{}",
    hidden=True,
    help="The guest, for the record.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log every object, not only warnings.")
def serve(
    sockets: tuple[Path, ...],
    devices: tuple[str, ...],
    transport: str,
    fabric: str | None,
    subnet: Path | None,
    nets: tuple[str, ...],
    socket_mode: int,
    trace: Path | None,
    trace_format: str,
    trace_limit: int,
    faults: Path | None,
    faults_when: str | None,
    record: Path | None,
    control: Path | None,
    pcap: Path | None,
    pcap_limit: int,
    pcap_messages: bool,
    guests: tuple[str, ...],
    run_json: str,
    verbose: bool,
) -> None:
    """Serve emulated functions until interrupted.

    Prints the option that attaches each function to QEMU, then "ready". QEMU must be 10.1 or newer
    (`mlx5emu qemu` prints the path of one), and the guest's memory must be shared.

    Example: mlx5emu serve --socket /tmp/mlx5.sock --device connectx7
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    if len(devices) > len(sockets):
        raise click.UsageError(f"{len(devices)} devices, but {len(sockets)} sockets")
    if guests and len(guests) != len(sockets):
        raise click.UsageError(f"{len(guests)} names of guests, but {len(sockets)} sockets")
    if fabric is not None and subnet is not None:
        raise click.UsageError(
            "use --subnet or --fabric, not both: all switches of a subnet are in one process. In"
            " a lab file, `subnet` of [server] is shared by the guests"
        )
    tracing: Trace | None = None
    functions: list[Function] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(short_collections(functions))
        try:
            plan = _plan(faults, faults_when) if faults is not None else None
            uplinks = [*map(parse_net, nets)]
            check_uplinks(uplinks)
            given = [*devices, *[""] * (len(sockets) - len(devices))]
            specs = parse_all(given, fabric=fabric is not None)
            check_vfs(specs, transport, has_subnet=subnet is not None)
            endpoints = with_vfs([*map(ServedDevice, sockets, specs)])
            names = names_of_guests(endpoints, guests)
            check_apart(
                [
                    *(("--socket", one.socket) for one in endpoints),
                    *(("--net", Path(one.what)) for one in uplinks if one.kind == "stream"),
                    ("--fabric", unix_path(fabric) if fabric is not None else None),
                    ("--control", control), ("--trace", trace),
                    ("--record", record), ("--pcap", pcap),
                ]
            )  # fmt: skip
            if trace is not None:
                vfs = {
                    index: function_number(index, one)
                    for index, one in enumerate(endpoints)
                    if one.pf is not None
                }
                tracing = Trace(trace, trace_format, trace_limit, names, vfs)
                stack.callback(tracing.close)
            options = FaultOptions(plan, record, devices, json.loads(run_json))
            server = Server(
                endpoints, transport, tracing.recorder if tracing else None, fabric, options,
                control, socket_mode, uplinks,
                PcapOptions(pcap, pcap_limit, pcap_messages) if pcap is not None else None,
                read_topology(subnet) if subnet is not None else None, names,
            )  # fmt: skip
        except (DeviceSpecError, TransportError, UserError, OSError) as error:
            raise _RefusedError(_sentence(error)) from error
        stack.callback(server.close)
        stack.enter_context(filtered(server.loop, server.names))
        functions += server.functions
        for device in endpoints:
            click.echo(attached(transport, device))
        if sys.stdout.isatty() and transport != VHOST_USER:
            click.echo(f"for example:\n{example(endpoints)}", err=True)
        click.echo(f"device code: {code_line()}", err=True)
        if code() == PURE and building.start():
            click.echo("compiling the device code in the background, for later runs", err=True)
        server.run()
    missing = [*server.complaints(), *filter(None, [tracing.complaint if tracing else ""])]
    if missing:
        raise UserError("; ".join(missing))


def _sentence(error: Exception) -> str:
    """Return the message of a mistake in the options; for an OSError the file and the reason."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _plan(path: Path, when: str | None) -> Plan:
    """Return the plan of a file, which is read once, because it may be a pipe of the shell.

    Raises UsageError for a plan that begins once the driver is up, which a server cannot detect,
    unless ``when`` says another time. Raises UserError for mistakes in the plan, and OSError.
    """
    from emu.device.faults.plan import LOADED
    from emu.server.service.plan_files import read_plan

    plan = read_plan(path)
    if when is None and plan.begins == LOADED:
        raise click.UsageError(
            f"{path} begins once the driver is up, which a server cannot detect: load it later with"
            " `mlx5emu fault load`, or begin at once with --faults-when loading"
        )
    return plan

"""``mlx5emu serve``: functions behind sockets, for a QEMU that somebody else runs."""

from __future__ import annotations

import contextlib
import json
import logging
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from emu.cli.options.net import net_option
from emu.cli.shared.completion import complete_device
from emu.cli.shared.files import ExampleFile, Existing, NewFile
from emu.device.function.function import Function
from emu.host.listening import OWNER_ONLY
from emu.host.printable import printable
from emu.host.user_error import UserError
from emu.server.net.eth.spec import parse as parse_net
from emu.server.net.pcap.file import DEFAULT_MIB
from emu.server.service.collector import short_collections
from emu.server.service.devicespec import DeviceSpecError, parse_all
from emu.server.service.fault_options import FaultOptions
from emu.server.service.listening import check_uplinks
from emu.server.service.pcap import PcapOptions
from emu.server.service.repeats import summed_up
from emu.server.service.server import ServedDevice, Server
from emu.server.service.subnet_file import read_topology
from emu.server.service.trace_file import DEFAULT_FORM, FORMS, Trace
from emu.server.service.trace_file import DEFAULT_MIB as DEFAULT_TRACE_MIB
from emu.server.service.transports import DEVICE_ID, TRANSPORTS, VHOST_USER
from emu.server.vfio.base import TransportError
from emu.server.vfio.kinds import DEFAULT_KIND

REPLY_TIMEOUT_MS = 60_000
_MEMORY = "2G"


class _Lines(logging.Formatter):
    """Lines for a terminal, whatever a guest, a client or a peer has put into them."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _RefusedError(click.ClickException):
    """An option names a model, a file or an address that cannot be used."""

    exit_code = click.UsageError.exit_code


def _mode(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """A mode as chmod takes it; the owner must be able to connect."""
    try:
        mode = int(value, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777 or not mode & stat.S_IWUSR:
        raise click.BadParameter(f"{value!r} is no octal number up to 0777 with 0200 in it")
    return mode


@click.command()
@click.option(
    "--socket",
    "sockets",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Socket to listen on; once for each function.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="SPEC",
    shell_complete=complete_device,
    help="MODEL[,guid=N][,lid=N][,pages=N][,link=ib|eth][,mac=ADDRESS][,segment=N] of the socket "
    "at the same place. Default: connectx6.",
)
@click.option(
    "--transport",
    type=click.Choice(TRANSPORTS),
    default=DEFAULT_KIND,
    show_default=True,
    help="Who speaks vfio-user to QEMU; or vhost-user, to User-Mode Linux.",
)
@click.option(
    "--fabric",
    metavar="NAME",
    help="unix:PATH or tcp:HOST:PORT, where functions of other processes are as well.",
)
@click.option(
    "--subnet",
    type=Existing(),
    help="Plug InfiniBand functions into the subnet of this file, as ibnetdiscover prints one.",
)
@net_option
@click.option(
    "--socket-mode",
    callback=_mode,
    default=f"{OWNER_ONLY:04o}",
    show_default=True,
    metavar="OCTAL",
    help="Mode of the sockets; whoever may write to one may connect.",
)
@click.option(
    "--trace",
    type=NewFile(),
    help="Record every command, register access, event and interrupt in this file.",
)
@click.option(
    "--trace-format",
    type=click.Choice(list(FORMS)),
    default=DEFAULT_FORM,
    show_default=True,
    help="Lines for mlx5emu trace show, or for reading as they are.",
)
@click.option(
    "--trace-limit",
    type=click.IntRange(1),
    default=DEFAULT_TRACE_MIB,
    show_default=True,
    metavar="MIB",
    help="End the trace when the file has this size.",
)
@click.option(
    "--faults",
    type=ExampleFile("plan"),
    metavar="FILE",
    help="Fail as this plan says (TOML); @NAME is one of `mlx5emu guide @faults`.",
)
@click.option(
    "--faults-when",
    type=click.Choice(["loading"]),
    help="Begin the plan at once, also one that is for a driver that is up.",
)
@click.option(
    "--record",
    type=NewFile(),
    help="Write every fault that fires in this file.",
)
@click.option(
    "--control",
    type=NewFile(),
    help="Socket for mlx5emu status, objects and fault.",
)
@click.option(
    "--pcap",
    type=NewFile(),
    help="Write what passes the functions' ports in this file (pcapng); a pipe will do.",
)
@click.option(
    "--pcap-limit",
    type=click.IntRange(1),
    default=DEFAULT_MIB,
    show_default=True,
    metavar="MIB",
    help="End the capture when the file has this size.",
)
@click.option(
    "--pcap-messages",
    is_flag=True,
    help="Send RDMA messages between functions of this process as packets, for --pcap.",
)
@click.option(
    "--guest",
    "guests",
    multiple=True,
    metavar="NAME",
    help="Name of the guest that gets the function, for status and traces; once for each socket.",
)
@click.option("--run", "run_json", default="{}", hidden=True, help="What the record says of us.")
@click.option("-v", "--verbose", is_flag=True, help="Log every object, not only mistakes.")
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

    Prints the option that attaches each to QEMU (10.1 or later; `mlx5emu qemu` prints the path of
    one), then "ready". The guest's memory has to be shared.
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
            "--subnet is not for --fabric: the switches are in one process. Guests of a lab share"
            " a subnet: subnet of its [server]"
        )
    if faults is not None and faults_when is None:
        _check_begin(faults)
    tracing: Trace | None = None
    functions: list[Function] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(short_collections(functions))
        try:
            uplinks = [*map(parse_net, nets)]
            check_uplinks(uplinks)
            given = [*devices, *[""] * (len(sockets) - len(devices))]
            endpoints = [*map(ServedDevice, sockets, parse_all(given, fabric=fabric is not None))]
            if trace is not None:
                tracing = Trace(trace, trace_format, trace_limit, guests)
                stack.callback(tracing.close)
            options = FaultOptions(faults, record, devices, json.loads(run_json))
            server = Server(
                endpoints, transport, tracing.recorder if tracing else None, fabric, options,
                control, socket_mode, uplinks,
                PcapOptions(pcap, pcap_limit, pcap_messages) if pcap is not None else None,
                read_topology(subnet) if subnet is not None else None, guests,
            )  # fmt: skip
        except (DeviceSpecError, TransportError, UserError, OSError) as error:
            raise _RefusedError(_sentence(error)) from error
        stack.callback(server.close)
        stack.enter_context(summed_up(server.loop))
        functions += server.functions
        for socket in sockets:
            click.echo(_attached(transport, socket))
        if sys.stdout.isatty() and transport != VHOST_USER:
            click.echo(f"for example:\n{example(sockets)}", err=True)
        server.run()
    missing = [*server.complaints(), *filter(None, [tracing.complaint if tracing else ""])]
    if missing:
        raise UserError("; ".join(missing))


def _sentence(error: Exception) -> str:
    """Return a mistake in the options in words."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _attached(transport: str, socket: Path) -> str:
    """The option that attaches a function to QEMU, or to a User-Mode Linux kernel."""
    if transport == VHOST_USER:
        return f"virtio_uml.device={socket.absolute()}:{DEVICE_ID}"
    return f"-device '{_qemu_option(socket)}'"


def _check_begin(path: Path) -> None:
    """Refuse a plan that begins once the driver is up: a server does not see when that is."""
    from emu.device.faults.plan import LOADED
    from emu.server.service.plan_files import read_plan

    if read_plan(path).begins == LOADED:
        raise click.UsageError(
            f"{path} begins once the driver is up, which a server does not see: serve without it,"
            " then `mlx5emu fault load` it; or begin at once, by --faults-when loading"
        )


def example(sockets: Sequence[Path]) -> str:
    """A command line with those functions, by the QEMU that `mlx5emu qemu` prints."""
    from emu.guests.machine import qemu

    try:
        system_qemu = qemu.find()
    except UserError:
        system_qemu = None
    program = (
        '"$(mlx5emu qemu)"'
        if system_qemu is None
        else shlex.quote(str(qemu.program_path(system_qemu)))
    )
    memory = f"-m {_MEMORY} -object memory-backend-memfd,id=ram,size={_MEMORY},share=on"
    ports = [
        f"-device pcie-root-port,id=port{number},chassis={number},slot={number}"
        f" -device '{_qemu_option(socket, f'port{number}')}'"
        for number, socket in enumerate(sockets, start=1)
    ]
    return " ".join([program, "-machine q35,memory-backend=ram", memory, *ports, "..."])


def _qemu_option(socket: Path, bus: str = "") -> str:
    address = {"type": "unix", "path": str(socket.absolute())}
    option = {"driver": "vfio-user-pci", "socket": address, "x-msg-timeout": REPLY_TIMEOUT_MS}
    return json.dumps(option | ({"bus": bus} if bus else {}))

"""The program inside the guest: runs the host's commands and sends their output to the host.

The program is the guest's init process, so it also reaps orphans, and its death is a kernel panic,
which the host notices. Every command leads its own process group and writes to pipes, not to the
virtio-serial port: that cannot be opened twice, so opening ``/dev/stderr`` would fail. Output that
a background process writes after its command has ended is dropped.

Each boot's initramfs contains this file; the suite's image does not, so a change needs no image
build. Imports are few, for the reason in ``frames``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
from collections.abc import Callable

from emu.guests.channel import frames

PORT_NAME = "mlx5emu"
BUSYBOX = "/run/mlx5emu/busybox"
CONFIG = "/run/mlx5emu/config"
BEGIN = "/run/mlx5emu/begin.sh"
DRAIN_LIMIT = 64  # maximum reads after a command's end: far more than a pipe's 64 KiB
ENVIRONMENT = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
    "USER": "root",
}
OUTPUTS = (frames.STDOUT, frames.STDERR)


class Job:
    """A running command: its process, our ends of its pipes, input it has not read yet."""

    def __init__(self, number: int, pid: int, stdin: int | None, outputs: dict[int, int]) -> None:
        self.number = number
        self.pid = pid
        self.stdin = stdin
        self.outputs = outputs  # our end of a pipe -> STDOUT or STDERR
        self.pending = bytearray()
        self.is_paused = False
        self.input_ended = False


class Runner:
    """Serves the host's port for as long as the guest runs."""

    def __init__(self, port: int, kernel_log: str = "/dev/kmsg", *, is_line: bool = False) -> None:
        """Serve ``port``; with ``is_line`` it is a serial line, and consumed bytes are reported."""
        self._port = port
        self._is_line = is_line
        self._kernel_log = kernel_log
        # A command has three of our descriptors; its own limit stays what programs expect.
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raise_limit()
        self._decoder = frames.FrameDecoder()
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._jobs: dict[int, Job] = {}
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # busybox's reboot and poweroff send these signals to init.
        signal.signal(signal.SIGTERM, lambda *_: self._power("reboot"))
        signal.signal(signal.SIGUSR2, lambda *_: self._power("poweroff"))
        self._watch(wake_read, select.POLLIN, lambda: self._reap(wake_read))
        self._watch(port, select.POLLIN, self._serve_port)

    def run(self) -> None:
        """Send HELLO, then serve the port, the pipes and the signals; never return."""
        self._send(frames.HELLO, 0, frames.MARK + os.uname().release.encode())
        while True:
            for fd, _ in self._poll.poll():
                # An earlier handler of this round may have closed the descriptor.
                if fd in self._handlers:
                    self._handlers[fd]()

    def _watch(self, fd: int, events: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def _close(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)
        os.close(fd)

    def _send(self, kind: int, job: int, payload: bytes = b"") -> None:
        data = memoryview(frames.encode(kind, job, payload))
        while data:
            data = data[os.write(self._port, data[: frames.CHUNK]) :]

    def _serve_port(self) -> None:
        """Read and serve the host's frames; power off when the host has disconnected.

        On a serial line, report the consumed bytes by a CREDIT frame for command 0.
        """
        data = os.read(self._port, 4 * frames.CHUNK)
        if not data:
            self._power("poweroff")  # the host has disconnected
        if self._is_line:
            self._send(frames.CREDIT, 0, frames.encode_count(len(data)))
        for frame in self._decoder.feed(data):
            self._serve(frame)

    def _serve(self, frame: frames.ChannelFrame) -> None:
        """Act on one frame of the host; ignore unknown kinds and frames of ended commands."""
        job = self._jobs.get(frame.job)
        if frame.kind == frames.RUN:
            self._start(frame)
        elif frame.kind == frames.PING:
            self._send(frames.PONG, 0)
        elif frame.kind == frames.POWER:
            self._power(frame.payload.decode())
        elif frame.kind == frames.STDIN and job is not None:
            self._take_input(job, frame.payload)
        elif frame.kind == frames.PAUSE and job is not None:
            self._pause(job, frame.payload == b"\x01")
        elif frame.kind == frames.CLOCK:
            self._note_clock(frame.payload)
        elif frame.kind == frames.SIGNAL and job is not None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.killpg(job.pid, frame.payload[0])

    def _start(self, frame: frames.ChannelFrame) -> None:
        """Start the command of a RUN frame in its own session and forward its output.

        A program that cannot be started is answered by its error on STDERR and status 127 (missing)
        or 126, also when descriptors or /dev/null are lacking.
        """
        argv, settings, has_input = frames.decode_command(frame.payload)
        theirs: list[int] = []
        ours: list[int] = []
        try:
            environ = ENVIRONMENT | dict(setting.split("=", 1) for setting in settings)
            self._open_pipes(theirs, ours, has_input=has_input)
            pid = self._spawn(argv, environ, theirs)
        except (OSError, ValueError) as error:  # ValueError: an empty name, a NUL
            self._refuse(frame.job, argv[0], error)
            for fd in ours:
                os.close(fd)
            return
        finally:
            for fd in theirs:
                os.close(fd)
        for fd in ours:
            os.set_blocking(fd, False)
        outputs = dict(zip(ours[-2:], OUTPUTS, strict=True))
        job = Job(frame.job, pid, ours[0] if has_input else None, outputs)
        self._jobs[job.number] = job
        for fd in job.outputs:
            self._watch(fd, select.POLLIN, self._output_handler(job, fd))

    def _open_pipes(self, theirs: list[int], ours: list[int], *, has_input: bool) -> None:
        """Append the command's three descriptors to ``theirs``, and our ends of its pipes to ours.

        Input, if it has any, comes first. On OSError the lists have what was opened.
        """
        if not has_input:
            theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        for is_input in (True, False, False) if has_input else (False, False):
            read, write = os.pipe2(os.O_CLOEXEC)
            theirs.append(read if is_input else write)
            ours.append(self._moved_up(write if is_input else read))

    def _moved_up(self, fd: int) -> int:
        """Move a descriptor above the limit of commands, if the hard limit permits any there.

        posix_spawn refuses to pass on a descriptor above that limit, so lower ones stay free.
        """
        soft, hard = self._limits
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, soft if soft < hard else 0)
        finally:
            os.close(fd)

    def _spawn(self, argv: list[str], environ: dict[str, str], theirs: list[int]) -> int:
        """Start a program with the boot's limit of descriptors; return its process.

        Raises OSError, and ValueError for words that no program can have.
        """
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)
        try:
            return os.posix_spawnp(
                argv[0],
                argv,
                environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(theirs)],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        finally:
            self._raise_limit()

    def _raise_limit(self) -> None:
        hard = self._limits[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def _pause(self, job: Job, paused: bool) -> None:
        """Stop or resume reading a command's output: when its pipes are full, the command waits."""
        if paused == job.is_paused:
            return
        job.is_paused = paused
        for fd in job.outputs:
            if paused:
                del self._handlers[fd]
                self._poll.unregister(fd)
            else:
                self._watch(fd, select.POLLIN, self._output_handler(job, fd))

    def _note_clock(self, payload: bytes) -> None:
        """Write the host's clock into the kernel's log and echo it (emu.guests.timeline.clock).

        An error of writing is ignored; the echo is sent anyway.
        """
        with contextlib.suppress(OSError), open(self._kernel_log, "wb", buffering=0) as log:
            log.write(b"<6>mlx5emu: clock %d\n" % frames.decode_clock(payload))
        self._send(frames.CLOCK, 0, payload)

    def _refuse(self, number: int, name: str, error: OSError | ValueError) -> None:
        """Answer a command that did not start: 127 if its program is missing, else 126."""
        file, why = name, str(error)
        if isinstance(error, OSError):
            file, why = error.filename or name, error.strerror or why
        text = f"{file}: {why}\n".encode(errors="surrogateescape")
        self._send(frames.STDERR, number, text)
        missing = file == name and isinstance(error, FileNotFoundError | NotADirectoryError)
        self._send(frames.EXIT, number, bytes([127 if missing else 126]))

    def _output_handler(self, job: Job, fd: int) -> Callable[[], None]:
        def handler() -> None:
            self._forward_output(job, fd)

        return handler

    def _forward_output(self, job: Job, fd: int) -> bool:
        """Read once and send the data; return False when no data is pending or the pipe has ended.

        The pipe is closed at its end. Output of a command that has ended is dropped.
        """
        try:
            data = os.read(fd, frames.CHUNK)
        except BlockingIOError:
            return False
        if not data:
            del job.outputs[fd]
            self._close(fd)
            return False
        if job.number in self._jobs:
            self._send(job.outputs[fd], job.number, data)
        return True

    def _take_input(self, job: Job, data: bytes) -> None:
        """Queue input for the command; empty ``data`` ends it.

        Report it as consumed if its input is closed.
        """
        if job.stdin is None:
            self._send(frames.CREDIT, job.number, frames.encode_count(len(data)))
            return
        if not data:
            job.input_ended = True
        job.pending += data
        if job.stdin not in self._handlers:
            self._watch(job.stdin, select.POLLOUT, lambda: self._feed(job))

    def _feed(self, job: Job) -> None:
        """Write what the command accepts and report it by CREDIT.

        Close the command's input at the end of the host's input; if the command has closed it, drop
        the rest.
        """
        assert job.stdin is not None
        try:
            count = os.write(job.stdin, job.pending) if job.pending else 0
        except BrokenPipeError:
            count = len(job.pending)
            job.input_ended = True
        del job.pending[:count]
        if count:
            self._send(frames.CREDIT, job.number, frames.encode_count(count))
        if job.pending:
            return
        if job.input_ended:
            self._close(job.stdin)
            job.stdin = None
        else:
            del self._handlers[job.stdin]
            self._poll.unregister(job.stdin)

    def _reap(self, wake: int) -> None:
        """Collect all ended processes; report the exit status of commands, ignore orphans."""
        os.read(wake, 512)
        by_pid = {job.pid: job for job in self._jobs.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                self._finish(by_pid[pid], os.waitstatus_to_exitcode(status))

    def _finish(self, job: Job, code: int) -> None:
        """Send a command's remaining output, then its status: the exit code, or 128 + signal.

        At most 64 chunks of each output are sent; later output of background processes is dropped.
        """
        for fd in list(job.outputs):
            for _ in range(DRAIN_LIMIT):
                if not self._forward_output(job, fd):
                    break
        if job.stdin is not None:
            self._close(job.stdin)
        self._pause(job, False)  # output of background processes is read, and dropped
        del self._jobs[job.number]
        self._send(frames.EXIT, job.number, bytes([code if code >= 0 else 128 - code]))

    def _power(self, action: str) -> None:
        """Send BYE, then reboot or power off at once, without sync; never return.

        Disk changes are discarded anyway.
        """
        self._send(frames.BYE, 0)
        os.execv(BUSYBOX, ["busybox", "reboot" if action == "reboot" else "poweroff", "-f"])


def open_port() -> int:
    """Open and return the host's virtio-serial port; raise FileNotFoundError without it.

    Without udev the port has no name in /dev/virtio-ports.
    """
    base = "/sys/class/virtio-ports"
    for entry in os.listdir(base):
        with open(f"{base}/{entry}/name") as file:
            if file.read().strip() == PORT_NAME:
                return os.open(f"/dev/{entry}", os.O_RDWR | os.O_CLOEXEC)
    raise FileNotFoundError(f"no port {PORT_NAME} in {base}")


def open_line(path: str) -> int:
    """Open a serial line as the port, in raw mode (no echo), and return its descriptor."""
    import tty

    line = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    tty.setraw(line)
    return line


def await_options(port: int) -> bytes:
    """Report to the host that this guest can be saved (PARKED); return a resumed guest's options.

    The host sends them as shell variables for begin.sh, ended by a zero byte. The call blocks while
    the boot is saved.
    """
    os.write(port, frames.encode(frames.PARKED, 0, frames.MARK))
    options = b""
    while not options.endswith(b"\0"):
        options += os.read(port, frames.CHUNK)
    return options[:-1]


def _begin(options: bytes) -> None:
    """Write ``options`` to the configuration and run begin.sh, as init.sh does in a cold boot.

    Power off if the script fails.
    """
    with open(CONFIG, "wb") as config:
        config.write(options)
    if os.spawnv(os.P_WAIT, BUSYBOX, ["busybox", "sh", BEGIN]) != 0:
        os.execv(BUSYBOX, ["busybox", "poweroff", "-f"])


def main(line: str = "", *, is_parked: bool = False) -> None:
    """Run the program in the guest; never return. ``line`` is the serial line that is the port.

    ``is_parked``: this boot is saved, and the host sends the options of each guest resumed from it.
    """
    os.chdir("/root")
    os.environ["PATH"] = ENVIRONMENT["PATH"]  # posix_spawnp searches our own PATH
    port = open_line(line) if line else open_port()
    if is_parked:
        _begin(await_options(port))
    Runner(port, is_line=bool(line)).run()

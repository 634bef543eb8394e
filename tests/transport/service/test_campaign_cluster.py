"""Runs on a Dask cluster of loopback: equal reports, workers that die, clear refusals."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.instruments import fake_runs
from helpers.instruments.campaigns import driven, reported
from helpers.instruments.fake_runs import descriptions

import emu
from emu.instruments.campaign import cluster
from emu.instruments.campaign.cluster import Cluster, ClusterError
from emu.instruments.campaign.local import Local

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
QUIET = {"DASK_LOGGING__DISTRIBUTED": "critical", "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s"}


def python_path(root):
    """The package that this process runs, compiled or not, and the tests."""
    return f"{Path(emu.__file__).parents[1]}:{root / 'tests'}"


class Processes:
    """A scheduler and workers, each a process; ended at the test's end."""

    def __init__(self, root, protocol="tcp", **environ):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.address = f"{protocol}://127.0.0.1:{sock.getsockname()[1]}"
        self._protocol = protocol
        path = {"PYTHONPATH": python_path(root)}
        self._environ = os.environ | QUIET | path | environ
        self._all = []

    def start(self, *words):
        log = subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", "distributed.cli." + words[0], *words[1:]]
        process = subprocess.Popen(
            command, env=self._environ, stdout=log, stderr=log, start_new_session=True
        )
        self._all.append(process)
        return process

    def scheduler(self):
        port = self.address.rpartition(":")[2]
        process = self.start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-show",
            "--protocol", self._protocol,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", int(port))).close()
                return process
        raise AssertionError("no scheduler")

    def worker(self):
        return self.start(
            "dask_worker", self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--death-timeout", "60",
        )  # fmt: skip

    def end(self):
        for process in self._all:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left():
    """Dask leaves connections open that it has lost: another test would fail that collects them."""
    yield
    gc.unfreeze()
    for one in gc.get_objects():
        if type(one) is socket.socket and one.family == socket.AF_INET:
            one.close()


@pytest.fixture
def processes(pytestconfig, monkeypatch):
    root = pytestconfig.rootpath
    monkeypatch.setenv("PYTHONPATH", python_path(root))
    made = Processes(root)
    yield made
    made.end()


def test_a_cluster_gives_the_report_that_local_jobs_give(tmp_path, processes):
    """500 runs over 3 kernels, 2 workers, one of them killed in the middle; and 2 local jobs."""
    runs = descriptions(500)
    processes.scheduler()
    first, _ = processes.worker(), processes.worker()

    def tell(done, total, result):
        if done == 200:
            first.kill()

    store = driven(tmp_path / "a", runs, Cluster(processes.address, fake_runs.NAME), tell)
    assert first.wait() == -signal.SIGKILL
    assert reported(store) == reported(driven(tmp_path / "b", runs, Local(2, fake_runs.NAME)))


def test_all_ends_may_ask_for_certificates(tmp_path, pytestconfig, monkeypatch):
    """Dask's own settings, as share/guide/campaigns.md gives them: TLS, from both sides."""
    root = pytestconfig.rootpath
    monkeypatch.setenv("PYTHONPATH", python_path(root))
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-nodes",
        "-newkey",
        "rsa:2048",
        "-days",
        "2",
        "-subj",
        "/CN=campaign",
    ]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    settings = {"ca-file": str(cert)}
    for end in ("scheduler", "worker", "client"):
        settings |= {f"{end}.cert": str(cert), f"{end}.key": str(key)}
    settings = {f"distributed.comm.tls.{name}": value for name, value in settings.items()}
    environ = {
        f"DASK_{name.upper().replace('.', '__').replace('-', '_')}": value
        for name, value in settings.items()
    }
    made = Processes(root, "tls", **environ)
    try:
        made.scheduler()
        made.worker()
        runs = descriptions(4)
        with dask.config.set(settings):
            store = driven(tmp_path / "a", runs, Cluster(made.address, fake_runs.NAME))
        local = driven(tmp_path / "b", runs, Local(1, fake_runs.NAME))
        assert reported(store) == reported(local)
        address = made.address.replace("tls", "tcp")
        with pytest.raises(ClusterError):
            driven(tmp_path / "c", runs, Cluster(address, fake_runs.NAME))
    finally:
        made.end()


def test_a_scheduler_that_restarts_loses_nothing(tmp_path, processes):
    runs = descriptions(60)
    scheduler = processes.scheduler()
    processes.worker()

    def tell(done, total, result):
        if done == 20:
            scheduler.kill()
            scheduler.wait()
            processes.scheduler()
            processes.worker()

    store = driven(tmp_path / "a", runs, Cluster(processes.address, fake_runs.NAME), tell)
    assert not store.pending()


def test_no_scheduler_is_told_within_seconds(tmp_path, processes):
    begun = time.process_time()
    with pytest.raises(ClusterError, match=f"no scheduler at {processes.address}: .*refused"):
        driven(tmp_path, descriptions(1), Cluster(processes.address, fake_runs.NAME))
    assert time.process_time() - begun < cluster.CONNECT_SECONDS


def test_a_wrong_address_is_told(tmp_path):
    with pytest.raises(ClusterError, match="--dask nonsense: "):
        driven(tmp_path, descriptions(1), Cluster("nonsense", fake_runs.NAME))


def test_a_scheduler_without_workers_is_told(tmp_path, processes, monkeypatch):
    monkeypatch.setattr(cluster, "WORKERS_SECONDS", 1)
    processes.scheduler()
    with pytest.raises(ClusterError, match="has no workers"):
        driven(tmp_path, descriptions(1), Cluster(processes.address, fake_runs.NAME))


def test_workers_of_another_version_are_refused(tmp_path, processes, monkeypatch):
    processes.scheduler()
    processes.worker()
    executor = Cluster(processes.address, fake_runs.NAME)
    monkeypatch.setattr(executor, "_expected", "0.9 (0123456789ab)")
    with pytest.raises(ClusterError, match=r"has mlx5emu .*, this is 0\.9 .*install the same"):
        driven(tmp_path, descriptions(1), executor)


def test_a_worker_that_joins_later_is_checked_too():
    (run,) = descriptions(1)
    with pytest.raises(RuntimeError, match=r"mlx5emu .*, not 0\.9"):
        cluster.run_here(run.model_dump_json(), fake_runs.NAME, "0.9")


def test_without_the_extra_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"pip install 'mlx5emu\[cluster\]'"):
        driven(tmp_path, descriptions(1), Cluster("tcp://127.0.0.1:1", fake_runs.NAME))

"""A kernel that mounts no directory of the host, such as Debian's for clouds, and the share."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli.commands.guests import run
from emu.cli.main import main
from emu.guests import requested as module
from emu.guests.kernel.choice import Chosen
from emu.guests.options import OptionError
from emu.guests.requested import requested


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Return a function that gives the next guests a kernel with this configuration, or none."""

    def make(config):
        path = tmp_path / "kernel" / "vmlinuz"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        if config is not None:
            (path.parent / "config").write_text(config)
        monkeypatch.setattr(module, "check", lambda *_: None)
        monkeypatch.setattr(module, "choose", lambda *_: Chosen(path, tmp_path))

    return make


CLOUD = "CONFIG_EXT4_FS=m\n# CONFIG_9P_FS is not set\n"
WHOLE = "CONFIG_9P_FS=m\nCONFIG_NET_9P_VIRTIO=m\n"
DEFAULT = {"kernel": ("debian:cloud",), "share": Path("/"), "share_optional": True}


@pytest.mark.parametrize(
    ("config", "share"), [(CLOUD, None), (WHOLE, Path("/")), (None, Path("/"))]
)
def test_the_default_share_is_left_out_where_it_cannot_be_mounted(kernel, config, share):
    kernel(config)
    assert requested(DEFAULT).share == share


@pytest.mark.parametrize("name", ["share", "out"])
def test_a_directory_of_the_users_choice_is_refused(kernel, tmp_path, name):
    kernel(CLOUD)
    with pytest.raises(OptionError, match=rf"^{name}: the kernel lacks CONFIG_9P_FS, .*--no-share"):
        requested({"kernel": ("debian:cloud",), name: tmp_path})
    with pytest.raises(OptionError, match=r"^out: the kernel lacks"):
        requested({**DEFAULT, "out": tmp_path})


class NotBootedError(Exception):
    """Raised instead of a boot."""


def test_run_says_so_in_one_line(kernel, monkeypatch, tmp_path):
    kernel(CLOUD)
    options = []

    def booted(made, **_):
        options.append(made)
        raise NotBootedError

    monkeypatch.setattr(run, "Guest", booted)
    words = ["run", "--kernel", "debian:cloud"]
    done = CliRunner().invoke(main, [*words, "--", "ibv_devinfo"])
    assert isinstance(done.exception, NotBootedError)
    assert options[0].share is None
    assert done.stderr.splitlines() == [
        "mlx5emu: the working directory is not shared: the kernel has no 9P file system"
    ]
    refused = CliRunner().invoke(main, [*words, "--share", str(tmp_path), "--", "ibv_devinfo"])
    assert refused.exit_code == 2
    assert "--share: the kernel lacks CONFIG_9P_FS, CONFIG_NET_9P_VIRTIO" in refused.stderr
    assert "--no-share" in refused.stderr
    assert len(options) == 1

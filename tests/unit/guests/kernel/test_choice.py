"""Kernels of all kinds: build trees, packages, names of the archive, and what one lacks."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from helpers.files.kernel_files import bzimage, elf, module
from helpers.files.packages import build_package, needs_dpkg

from emu.guests import GuestOptions, LabError
from emu.guests.kernel import archive, choice, custom, kconfig, module_tree

RELEASE = "6.12.1-test"
needs_depmod = pytest.mark.skipif(
    not shutil.which("depmod", path="/usr/sbin:/sbin:/usr/bin:/bin"), reason="no depmod"
)
needs_strip = pytest.mark.skipif(not shutil.which("strip"), reason="no strip")


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def package(tmp_path):
    """Builds a .deb of the files in a mapping."""

    return partial(build_package, tmp_path)


@pytest.fixture
def tree(tmp_path):
    """A build tree with one module, as the kernel's build leaves it."""
    root = tmp_path / "tree"
    for path, data in {
        "arch/x86/boot/bzImage": b"image",
        ".config": b"CONFIG_X=y\n",
        "fs/ext4/ext4.ko": module(b"", RELEASE),
        "modules.builtin": b"kernel/drivers/virtio/virtio_pci.ko\n",
        "modules.order": b"fs/ext4/ext4.o\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def modules_of(release=RELEASE, prefix=""):
    return {f"{prefix}lib/modules/{release}/kernel/x.ko": module(b"", release)}


@needs_depmod
def test_tables_that_a_tree_lacks_are_made(tmp_path):
    for path, data in modules_of().items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(data)
    found = custom.find_tree(tmp_path, RELEASE, tmp_path / "work")
    assert "kernel/x.ko:" in (found / "modules.dep").read_text()
    assert not (tmp_path / "lib/modules" / RELEASE / "modules.dep").exists()


def test_a_file_is_a_bzimage(tmp_path):
    (tmp_path / "bzImage").write_bytes(bzimage(b"x"))
    chosen = choice.choose([str(tmp_path / "bzImage")], "trixie")
    assert (chosen.kernel, chosen.modules) == (tmp_path / "bzImage", None)


def test_a_build_tree_has_image_and_modules(tree):
    chosen = choice.choose([str(tree)], "trixie")
    assert (chosen.kernel, chosen.modules) == (tree / "arch/x86/boot/bzImage", tree)


@pytest.mark.parametrize("order", ["fs/ext4/ext4.o", "kernel/fs/ext4/ext4.ko", "fs/ext4/ext4.ko"])
@needs_depmod
@needs_strip
def test_modules_of_a_build_tree_need_no_installation(tree, order):
    """Each kernel's way to name them in modules.order."""
    (tree / "modules.order").write_text(f"{order}\n/etc/passwd.ko\n../up.ko\nnot/there.o\n")
    found = custom.find_tree(tree, RELEASE, tree)
    assert "kernel/fs/ext4/ext4.ko:" in (found / "modules.dep").read_text()
    assert [path.name for path in found.rglob("*.ko")] == ["ext4.ko"]


@needs_depmod
@needs_strip
def test_a_module_that_is_built_no_more_goes(tree):
    module_tree.staged(tree, RELEASE)
    (tree / "modules.order").write_text("")
    assert not list(module_tree.staged(tree, RELEASE).rglob("*.ko"))


@needs_strip
@pytest.mark.parametrize(("data", "order", "machine"), [(1, "little", 243), (2, "big", 22)])
def test_a_module_of_another_processor_is_copied_as_it_is(
    tree, data, order, machine, tmp_path, monkeypatch
):
    """GNU's strip refuses its format."""
    foreign = b"\x7fELF\2" + bytes([data, 1]) + bytes(11) + machine.to_bytes(2, order) + bytes(44)
    (tree / "fs/ext4/ext4.ko").write_bytes(foreign)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "strip").symlink_to(shutil.which("strip"))
    (programs / "depmod").write_text(f"#!/bin/sh\n: > $2/lib/modules/{RELEASE}/modules.dep\n")
    (programs / "depmod").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    staged = module_tree.staged(tree, RELEASE)
    assert (staged / "kernel/fs/ext4/ext4.ko").read_bytes() == foreign


@needs_strip
def test_a_module_that_is_none_is_an_error(tree):
    (tree / "fs/ext4/ext4.ko").write_bytes(b"no ELF")
    with pytest.raises(LabError, match=r"cannot strip the module .*ext4\.ko"):
        module_tree.staged(tree, RELEASE)


def test_a_tree_without_an_image(tree, tmp_path):
    (tree / "arch/x86/boot/bzImage").unlink()
    with pytest.raises(LabError, match=r"build tree and has no .*bzImage: mlx5emu kernel build"):
        choice.choose([str(tree)], "trixie")
    with pytest.raises(LabError, match="is not a build tree"):
        choice.choose([str(tmp_path)], "trixie")


@needs_dpkg
@needs_depmod
@pytest.mark.parametrize("prefix", ["", "usr/"])
@pytest.mark.parametrize("kernel", ["vmlinuz", "vmlinux"])
def test_one_package_has_all(package, prefix, kernel):
    """ppc64el's kernel is an ELF, which is not compressed."""
    files = {f"boot/{kernel}-{RELEASE}": b"kernel", f"boot/config-{RELEASE}": b"CONFIG_Y=m\n"}
    deb = package("linux-image-1", files | modules_of(prefix=prefix))
    chosen = choice.choose([str(deb)], "trixie")
    assert chosen.kernel.read_bytes() == b"kernel"
    assert chosen.modules.name == RELEASE
    assert "kernel/x.ko:" in (chosen.modules / "modules.dep").read_text()
    assert kconfig.known(chosen.kernel, chosen.modules, None) == {"Y": "m"}


@needs_dpkg
@needs_depmod
def test_a_kernel_in_several_packages(package):
    image = package("linux-binary", {f"usr/lib/modules/{RELEASE}/vmlinuz": b"kernel"})
    modules = package("linux-modules", modules_of(prefix="usr/"))
    chosen = choice.choose([str(image), str(modules)], "trixie")
    again = choice.choose([str(modules), str(image)], "trixie")
    assert chosen == again
    assert chosen.kernel.read_bytes() == b"kernel"
    assert (chosen.modules / "kernel/x.ko").exists()


@needs_dpkg
def test_packages_without_a_kernel_leave_nothing_in_the_cache(package, tmp_path):
    deb = package("linux-modules", modules_of())
    with pytest.raises(LabError, match="the packages contain no kernel: linux-image-VERSION"):
        choice.choose([str(deb)], "trixie")
    deb = package("linux-image", {f"boot/vmlinuz-{RELEASE}": b"kernel"})
    with pytest.raises(LabError, match=f"no modules for {RELEASE}: add linux-modules-{RELEASE}"):
        choice.choose([str(deb)], "trixie")
    assert not list((tmp_path / "cache/mlx5emu/kernels").iterdir())


@needs_dpkg
@pytest.mark.hostile
def test_a_damaged_package(tmp_path):
    deb = tmp_path / "x.deb"
    deb.write_bytes(b"!<arch>\n" + os.urandom(500))
    with pytest.raises(LabError, match="cannot read"):
        choice.choose([str(deb)], "trixie")
    assert not (tmp_path / "cache/mlx5emu/kernels").exists()


def test_the_newest_of_several_kernels(tmp_path):
    unpacked, target = tmp_path / "u", tmp_path / "t"
    target.mkdir()
    for release in ("6.12.9", "6.12.107", "6.12.107-rc3"):
        tree = unpacked / "usr/lib/modules" / release
        tree.mkdir(parents=True)
        (tree / "modules.dep").write_text("")
        (tree / "vmlinuz").write_text(release)
    choice.take_kernel(unpacked, target)
    assert (target / "vmlinuz").read_text() == "6.12.107"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["/no/where"],
            "no kernel /no/where; a kernel is a bzImage, a build tree, packages, or debian:NAME",
        ),
        (["debian:nosuch"], "no kernel debian:nosuch: debian:rt, debian:cloud, or a version"),
        (["debian:7.3; rm"], "no kernel debian:7.3; rm.*did you mean debian:7.3?"),
        (["debian:colud"], "no kernel debian:colud: .*; did you mean debian:cloud?"),
        (["debian:6.12.107+deb13-amd64"], "did you mean debian:6.12.107?"),
        ([__file__, __file__], "only packages"),
        ([__file__], "test_choice.py is not a Linux bzImage$"),
        (
            [__file__.replace("choice", "choise")],
            "no kernel .*; near it: test_choice.py, .*; a kernel is",
        ),
        ([sys.executable], "is not a Linux bzImage: choose .*bzImage of"),
    ],
)
def test_words_that_mean_no_kernel(words, message):
    with pytest.raises(LabError, match=message):
        choice.choose(words, "trixie")


@pytest.fixture
def fake_bootstrap(tmp_path, monkeypatch):
    """An mmdebstrap that unpacks a kernel, or fails as ``fail`` says."""
    program = tmp_path / "bin" / "mmdebstrap"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(archive, "source_line", lambda suite: f"deb x {suite} main")

    def install(script):
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "calls"

    return install


PACK = """
for word; do case $word in */packages.tar) tar=$word;; esac; done
root=$(mktemp -d)
{files}
tar --create --file "$tar" --directory "$root" .
rm -r "$root"
"""
FETCH = PACK.format(
    files="""
mkdir -p $root/boot $root/usr/lib/modules/7.3.0 $root/usr/bin
echo kernel > $root/boot/vmlinuz-7.3.0
touch $root/usr/lib/modules/7.3.0/modules.dep $root/usr/bin/other
ln -s usr/lib $root/lib
"""
)
NOTHING = PACK.format(files="mkdir $root/etc")


def test_a_name_of_the_archive_is_fetched_once(fake_bootstrap):
    calls = fake_bootstrap(FETCH)
    chosen = [choice.choose(["debian:7.3"], "trixie") for _ in range(2)]
    assert chosen[0] == chosen[1]
    call = calls.read_text()
    assert call.count("--variant=extract") == 1
    assert "linux-image-7[.]3" in call
    assert "deb x experimental main" in call


def test_mmdebstrap_is_given_no_directory_of_ours(fake_bootstrap, tmp_path):
    """Without root it works in a user namespace, as another user, who can write to none."""
    calls = fake_bootstrap(FETCH)
    choice.choose(["debian:7.3"], "trixie")
    ours = [word for word in calls.read_text().split() if word.startswith(f"{tmp_path}/cache")]
    assert [Path(word).name for word in ours] == ["packages.tar"]
    assert "--format=tar" in calls.read_text()
    assert not list((tmp_path / "cache/mlx5emu/kernels/debian-7.3").rglob("other"))


NAMES = ("5.10.3", "6.1.0-56", "6.12.107+deb13", "6.12.117+deb13-cloud", "6.18~rc1", "7.2.13+deb14")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("9.9", "debian:6.12, debian:6.12.107, debian:7.2, debian:7.2.13"),
        ("6.13", "debian:6.12, debian:6.12.107, debian:6.12.117, debian:6.18"),
        ("6.1.9", "debian:6.1, debian:6.1.0, debian:6.12, debian:6.12.107"),
    ],
)
def test_a_version_that_no_suite_has(fake_bootstrap, tmp_path, name, near):
    """What is near is told, by the names that the script has put into the log."""
    names = "".join(f"echo 'kernel: linux-image-{one}-amd64' >&2\n" for one in NAMES)
    fake_bootstrap(f"echo 'kernel: linux-image-cloud-amd64' >&2\n{names}{NOTHING}")
    with pytest.raises(LabError) as caught:
        choice.choose([f"debian:{name}"], "trixie")
    suites = "bookworm, trixie, trixie-backports, sid, experimental"
    said = f"no kernel debian:{name} in {suites}; near it: "
    assert str(caught.value) == f"{said}{near}"
    assert not list((tmp_path / "cache/mlx5emu/kernels").iterdir())


@pytest.mark.parametrize(
    ("name", "matching"),
    [
        ("6.1", ["6.1.0-47", "6.1.0-56"]),
        ("6.12", ["6.12.107+deb13", "6.12.117+deb12"]),
        ("6.12.107", ["6.12.107+deb13"]),
        ("6.18", ["6.18~rc1", "6.18-rc2"]),
    ],
)
def test_what_a_version_matches(name, matching):
    names = ["6.1.0-47", "6.1.0-56", "6.12.107+deb13", "6.12.117+deb12", "6.18~rc1", "6.18-rc2"]
    others = ["6.12.117+deb12-cloud", "6.1.0-47-rt", "6.12.107+deb13-amd64-dbg", "16.12"]
    pattern = re.compile(archive.package_pattern(name))
    found = [one for one in names + others if pattern.fullmatch(f"linux-image-{one}-amd64")]
    assert found == matching


def test_the_script_takes_the_newest_that_matches(tmp_path):
    """Its tools are played; apt has an older one and another flavour as well."""
    tools, root = tmp_path / "tools", tmp_path / "root"
    (root / "var/cache/apt/archives").mkdir(parents=True)
    tools.mkdir()
    names = ("6.12.9+deb13", "6.12.117+deb13", "6.12.118+deb13-cloud", "6.13.1")
    for name, script in {
        "apt-cache": "\n".join(f"echo linux-image-{one}-amd64" for one in names),
        "apt-get": f'echo "$@" > {tmp_path}/got; touch {root}/var/cache/apt/archives/linux-x.deb',
        "dpkg-deb": f'echo "$@" > {tmp_path}/unpacked',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    script = Path(archive.__file__).with_name("newest.sh").read_text()
    for name, taken in (("6.12", True), ("6.14", False)):
        words = script.replace("@PATTERN@", archive.package_pattern(name))
        environ = {"PATH": f"{tools}:{os.environ['PATH']}", "MMDEBSTRAP_APT_CONFIG": "x"}
        command = ["sh", "-c", words, "sh", str(root)]
        subprocess.run(command, check=True, env=environ, capture_output=True)
        assert (tmp_path / "got").exists() == taken
        if taken:
            assert (tmp_path / "got").read_text().endswith(" linux-image-6.12.117+deb13-amd64\n")
            assert (tmp_path / "unpacked").read_text().split()[-1] == str(root)
            (tmp_path / "got").unlink()


def test_a_flavour_is_that_of_the_suite(fake_bootstrap):
    calls = fake_bootstrap(FETCH)
    choice.choose(["debian:rt"], "bookworm")
    choice.choose(["debian:rt"], "sid")
    said = calls.read_text()
    assert said.index("deb x bookworm main") < said.index("deb x sid main")
    assert "trixie" not in said
    assert said.count("linux-image-rt-amd64") == 2


@pytest.mark.parametrize(
    "script",
    [
        'echo "E: Unable to locate package linux-image-rt-amd64" >&2; exit 1',
        'echo "E: write error: No space left on device" >&2; exit 1',
    ],
)
def test_what_cannot_be_fetched_leaves_nothing(fake_bootstrap, tmp_path, script):
    fake_bootstrap(f"{FETCH}{script}")
    with pytest.raises(LabError, match=r"Unable to locate|No space left"):
        choice.choose(["debian:rt"], "trixie")
    assert not list((tmp_path / "cache/mlx5emu/kernels").iterdir())


@pytest.mark.parametrize(
    ("choices", "lacks"),
    [
        ({}, []),
        ({"share": Path("/")}, ["9P_FS", "NET_9P_VIRTIO"]),
        ({"network": True}, ["VIRTIO_NET"]),
        ({"hugepages": 4}, ["HUGETLBFS"]),
        ({"devices": ("connectx6dx,vfs=1",)}, ["PCI_MMCONFIG", "PCI_IOV"]),
    ],
)
def test_what_a_kernel_lacks_is_named(choices, lacks):
    options = GuestOptions(**choices)
    optional = {"9P_FS", "NET_9P_VIRTIO", "VIRTIO_NET", "HUGETLBFS"}
    optional |= {"PCI_MMCONFIG", "PCI_IOV"}
    has = {name: "y" for name in kconfig.smallest(()) if name not in optional}
    if not lacks:
        kconfig.check(has, options, Path("/"))
        return
    names = ", ".join(f"CONFIG_{name}" for name in lacks)
    with pytest.raises(LabError, match=f"the kernel lacks {names}\\b"):
        kconfig.check(has, options, Path("/"))


def test_modules_without_their_directory_are_told():
    with pytest.raises(LabError, match=r"CONFIG_MLX5_CORE, .* as modules: --modules names"):
        kconfig.check(kconfig.smallest(()), GuestOptions(), None)


def test_a_kernel_tells_its_own_configuration(tmp_path):
    packed = b"IKCFG_ST" + gzip.compress(b"# CONFIG_A is not set\nCONFIG_B=y\n") + b"IKCFG_ED"
    image = elf({".rodata": packed})
    assert kconfig.known(tmp_path / "bzImage", None, image) == {"B": "y"}
    assert kconfig.known(tmp_path / "bzImage", None, b"IKCFG_ST" + bytes(20)) is None
    assert kconfig.known(tmp_path / "bzImage", None, elf({})) is None


def test_the_smallest_configuration_has_what_is_needed():
    kconfig.check(
        kconfig.smallest(kconfig.features()),
        GuestOptions(devices=("connectx6dx,vfs=1",), share=Path("/"), network=True, hugepages=4),
        Path("/"),
    )
    with pytest.raises(LabError, match="no debugging feature 'x': one of kasan, lockdep"):
        kconfig.smallest(["x"])

"""A wheel has the guide and the examples, and runs as a checkout does."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from emu.instruments.campaign.matrix import read

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of what is in the repository, as a build writes beside the sources."""
    work = tmp_path_factory.mktemp("sources")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes((ROOT / name).read_bytes())
    return work


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory):
    """The unpacked wheel."""
    return built(sources, tmp_path_factory.mktemp("wheel"))


def built(sources, work):
    """Where the wheel of these sources is unpacked: in a folder of ``work``."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", work, sources]
    subprocess.run(command, check=True)
    (path,) = work.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(work / "site")
    return work / "site"


def run(wheel, *words, cwd):
    """The command line of the unpacked wheel, in a directory that is no checkout."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from emu.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", code, wheel, *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_guide_and_examples_by_name(wheel, tmp_path):
    assert (wheel / "emu" / "data" / "examples" / "subnet" / "two-leaves.net").is_file()
    listed = run(wheel, "guide", cwd=tmp_path)
    pages = {path.stem for path in (ROOT / "share" / "guide").glob("*.md")} - {"README"}
    listed_pages, _, examples = listed.stdout.partition("\nExamples:\n")
    assert {line.split()[0] for line in listed_pages.splitlines()} == pages
    assert {line.split("  ")[0] for line in examples.splitlines()} == {
        "labs", "subnets", "campaigns", "failure sets", "programs", "plans", "recipes", "files",
    }  # fmt: skip
    page = run(wheel, "guide", "faults", cwd=tmp_path)
    assert page.stdout == (ROOT / "share" / "guide" / "faults.md").read_text()
    checked = run(wheel, "fault", "check", "@link-flaps", cwd=tmp_path)
    assert (checked.returncode, "1 rule," in checked.stdout) == (0, True), checked.stderr
    for name in ("exchange.py", "exchange.c", "roce"):
        shown = run(wheel, "guide", f"@{name}", cwd=tmp_path)
        (source,) = (ROOT / "examples").glob(f"[lp]*/{name}*")
        assert shown.stdout == source.read_text()
    for name in ("examples/sriov/namespaces.sh", "emu/guests/options/README.md"):
        assert run(wheel, "guide", name, cwd=tmp_path).stdout == (ROOT / name).read_text()
    missed = run(wheel, "fault", "check", "@flaps", cwd=tmp_path)
    assert (missed.returncode, "near it: " in missed.stderr) == (2, True)
    assert "link-flaps" in missed.stderr


def test_each_page_that_the_readme_names(wheel, tmp_path):
    names = set(re.findall(r"\]\(([\w./-]+)\)", (ROOT / "README.md").read_text()))
    assert {"CHANGELOG.md", "share/guide/lab.md", "scripts/benchmarks/README.md"} <= names
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1));"
        " from click.testing import CliRunner; from emu.cli.commands.setup.guide import guide;"
        " [print(name) for name in sys.argv[1:] if CliRunner().invoke(guide, [name]).exit_code]"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, wheel, *names],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == ""


def test_campaigns_by_name_find_their_plans(wheel, tmp_path):
    """The plans stand beside the campaign in the wheel as in a checkout; results come here."""
    for name in ("all-architectures", "loading", "refused", "traffic"):
        listed = run(wheel, "campaign", "list", f"@{name}", cwd=tmp_path)
        path = ROOT / "examples" / "campaigns" / f"{name}.toml"
        assert listed.stdout.split() == [one.name for one in read(path).runs], listed.stderr
    chosen = run(wheel, "campaign", "list", "--only", "*.probe-init-*", "@refused", cwd=tmp_path)
    assert len(chosen.stdout.split()) == 3
    assert (wheel / "emu" / "data" / "examples" / "storage" / "nvme-rdma.sh").is_file()


def test_man_finds_the_page_of_an_installation(wheel, tmp_path):
    """An installation puts the wheel's data below the environment, where man(1) looks by PATH."""
    page = (ROOT / "share/man/man1/mlx5emu.1").read_bytes()
    (data,) = wheel.glob("*.data/data")
    assert (data / "share/man/man1/mlx5emu.1").read_bytes() == page
    shown = run(wheel, "guide", "man", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "mlx5emu" in shown.stdout
    assert "--faults" in shown.stdout.replace("\b", "")


def test_doctor_names_no_script_of_a_checkout(wheel, tmp_path):
    assert "scripts/setup" not in run(wheel, "doctor", cwd=tmp_path).stdout


def test_a_source_distribution_makes_the_same_wheel(wheel, sources, tmp_path):
    """By the build backend itself, as a front end such as build calls it."""
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", code, tmp_path]
    subprocess.run(command, cwd=sources, capture_output=True, check=True)
    (path,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xf", path, "-C", tmp_path], check=True)
    unpacked = tmp_path / path.name.removesuffix(".tar.gz")
    assert contents(built(unpacked, tmp_path / "wheel")) == contents(wheel)
    for page in ("README.md", "CHANGELOG.md", "LICENSE", "examples/ucx/ucx.sh"):
        assert (unpacked / page).read_bytes() == (ROOT / page).read_bytes()


def contents(folder):
    """The files of a wheel, but for the list of them."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in ("RECORD", "SOURCES.txt")
        and path.suffix != ".pyc"  # of tests that ran it before
    }

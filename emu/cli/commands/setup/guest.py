"""``mlx5emu guest``: builds, lists and removes guest images in the cache."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from emu.cli.shared.control import console
from emu.cli.shared.files import Existing
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.params import NearChoice
from emu.cli.shared.progress import display, working
from emu.cli.shared.tables import Rows
from emu.compiled import building
from emu.compiled.loading import FOLDER
from emu.compiled.sources import DEVICE
from emu.guests import cache
from emu.guests.architecture import ARCHITECTURES, NATIVE, is_native
from emu.guests.archive.names import DEFAULT_SUITE, SUITES, check_packages, why_not_python
from emu.guests.errors import LabError
from emu.guests.image import image
from emu.guests.image.recipe import recipe
from emu.guests.machine import accel, qemu, saved
from emu.host.counted import decimal
from emu.host.printable import one_line


@click.group(cls=NamedGroup, short_help="Build, list and remove guest images.")
def guest() -> None:
    """Build, list and remove guest images; `run`, `boot` and `up` build missing ones themselves.

    Example: mlx5emu guest build --suite sid
    """


@guest.command(short_help="Build missing images, and fetch QEMU if needed.")
@click.option(
    "--suite",
    "suites",
    type=NearChoice(SUITES),
    multiple=True,
    help=f"Debian suite; may be repeated.  [default: {DEFAULT_SUITE}]",
)
@click.option(
    "--arch",
    type=NearChoice(ARCHITECTURES),
    default=NATIVE.name,
    show_default=True,
    help="Processor architecture of the images.",
)
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Debian package to add to the images; may be repeated.",
)
@click.option(
    "--pip",
    multiple=True,
    metavar="NAME[==VERSION]",
    help="Python package to add to the images, fetched by pip; may be repeated.",
)
@click.option(
    "--wheel",
    "wheels",
    type=Existing(resolve_path=True),
    multiple=True,
    metavar="FILE",
    help="File of a Python package to add to the images; may be repeated.",
)
def build(
    suites: tuple[str, ...],
    arch: str,
    packages: tuple[str, ...],
    pip: tuple[str, ...],
    wheels: tuple[Path, ...],
) -> None:
    """Build images that the cache lacks, and fetch QEMU if the system's is too old.

    Example: mlx5emu guest build --suite sid --package bpftrace
    """
    try:
        check_packages(packages)
    except LabError as error:
        raise click.BadParameter(str(error), param_hint="--package") from None
    if why := why_not_python(pip, ()):
        raise click.BadParameter(why, param_hint="--pip")
    if why := why_not_python((), [path.name for path in wheels]):
        raise click.BadParameter(why, param_hint="--wheel")
    of, python = ARCHITECTURES[arch], (*pip, *map(str, wheels))
    if python and not is_native(of):
        why = f"only for images of {NATIVE.name}"
        raise click.BadParameter(why, param_hint="--pip" if pip else "--wheel")
    recipes = [recipe(suite, packages, of, python) for suite in suites or (DEFAULT_SUITE,)]
    with display() as (progress, on_wait):
        program = qemu.ensure(progress, on_wait, of)
        images = [
            image.ensure(one.suite, one.extra, progress, on_wait, of, python) for one in recipes
        ]
    click.echo(f"QEMU {program.version_text} ({program.origin})")
    for one, built in zip(recipes, images, strict=True):
        click.echo(f"{one.title}: Linux {built.release}, rdma-core {built.rdma_core}")


@guest.command("list", short_help="List the images in the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON; sizes in bytes.")
def list_images(as_json: bool) -> None:
    """List the images in the cache, by suite, architecture and date.

    Below them are the kernels that `--kernel debian:...` has fetched, and the saved boots.

    Example: mlx5emu guest list
    """
    images = sorted(image.cached(), key=lambda entry: (entry.suite, entry.arch, entry.built))
    rows = [_row(entry) for entry in images]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif rows:
        table = Rows(*rows[0], numbers=("size",))
        for row in rows:
            about = {
                **row,
                "built": row["built"].partition("T")[0],
                "size": decimal(row["size"]),
                "packages": ", ".join(row["packages"]),
            }
            table.add(*map(one_line, about.values()))
        console().print(table)
    else:
        click.echo("no images; build one with mlx5emu guest build")
    for line in [] if as_json else _besides_images():
        click.echo(line)


def _besides_images() -> Iterator[str]:
    """Yield a line for the archive's kernels and one for saved boots, if the cache has any."""
    directory = cache.subdir("kernels")
    if kernels := sorted(path.name for path in directory.iterdir() if path.is_dir()):
        yield f"kernels ({decimal(cache.disk_usage(directory))}): {', '.join(kernels)}"
    count, size = saved.disk_usage()
    if count:
        yield f"saved boots ({decimal(size)}): {count}"


def _row(entry: image.Image) -> dict[str, Any]:
    """Return the cells of an image by the names of their columns; its size in bytes."""
    return {
        "suite": entry.suite,
        "arch": entry.arch,
        "kernel": entry.release,
        "rdma-core": entry.rdma_core,
        "built": entry.built,
        "size": cache.disk_usage(entry.path),
        "state": "current" if entry.is_current else "old",
        "packages": [*entry.packages, *(word.partition(" ")[0] for word in entry.python)],
    }


@guest.command(short_help="Remove images and saved boots from the cache.")
@click.option(
    "--suite",
    "suites",
    type=NearChoice(SUITES),
    multiple=True,
    help="Remove only images of this suite; may be repeated.",
)
@click.option("--old", is_flag=True, help="Remove only images that this version no longer uses.")
@click.option(
    "--kernels", is_flag=True,
    help="Remove only kernels and headers; the next use fetches the archive's newest.",
)  # fmt: skip
@click.option(
    "--all", "everything", is_flag=True,
    help="Remove kernels, headers, QEMU, compiled code and logs of past runs, too. The SSH key "
    "stays, as running guests accept it.",
)  # fmt: skip
def clean(suites: tuple[str, ...], old: bool, kernels: bool, everything: bool) -> None:
    """Remove images, saved boots and unused compiled code; running guests keep theirs.

    Parts of builds that were interrupted are removed as well, and named.

    Example: mlx5emu guest clean --old
    """
    if everything and (suites or old or kernels):
        raise click.UsageError("--all removes everything: drop --suite, --old and --kernels")
    if kernels and (suites or old):
        raise click.UsageError("--kernels removes no images: drop --suite and --old")
    with working("removing"):
        swept = cache.sweep()
        freed = sum(swept.values()) + (0 if kernels else _remove_images(suites, old))
        if not (kernels or suites or everything):
            freed += building.remove(kept=0, current=DEVICE.key())
        if kernels or everything:
            freed += _remove_directories("kernels", "headers")
        if everything:
            freed += _remove_directories(FOLDER, "images", "qemu", "plugins", "runs")
            accel.forget()
    for path, size in swept.items():
        name = one_line(str(path.relative_to(cache.cache_dir())))
        click.echo(f"{name}: {decimal(size)} of an interrupted build")
    click.echo(f"{decimal(freed)} freed")


def _remove_images(suites: tuple[str, ...], old: bool) -> int:
    """Remove saved boots and the chosen images; return the number of bytes freed."""
    freed = saved.remove_all(suites)
    for entry in image.cached():
        if (not suites or entry.suite in suites) and not (old and entry.is_current):
            freed += cache.disk_usage(entry.path)
            image.remove(entry)
    return freed


def _remove_directories(*names: str) -> int:
    """Remove these directories of the cache; return the number of bytes freed."""
    freed = 0
    for name in names:
        directory = cache.subdir(name)
        freed += cache.disk_usage(directory)
        shutil.rmtree(directory)
    return freed

"""Recipes of guest images, and their keys."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from emu.guests.architecture import ARCHITECTURES
from emu.guests.archive.names import SUITES
from emu.guests.errors import LabError
from emu.guests.image.recipe import recipe


def test_a_key_stays_the_same():
    assert recipe("trixie").key == recipe("trixie").key
    assert len({recipe(suite).key for suite in SUITES}) == len(SUITES)
    assert recipe("sid").name == f"sid-{recipe('sid').key}"


@pytest.mark.parametrize("field", [field.name for field in fields(recipe("sid"))])
def test_any_change_gives_another_key(field):
    before = recipe("sid", ["ucx-utils"])
    value = getattr(before, field)
    after = replace(before, **{field: (*value, "x") if isinstance(value, tuple) else value + "x"})
    assert after.key != before.key


def test_only_sid_may_be_past_its_validity():
    doubtful = [suite for suite in SUITES if "Check-Valid-Until" in str(recipe(suite).apt_options)]
    assert doubtful == ["sid"]


def test_another_suite_is_refused():
    with pytest.raises(LabError, match="'buster': choose one of bookworm, trixie, sid"):
        recipe("buster")


def test_scripts_have_their_blanks():
    wanted = recipe("trixie", ["ucx-utils"])
    assert "@IMAGE@" in wanted.pack
    assert "@BASE@" in wanted.restore
    for script in (wanted.pack, wanted.restore, wanted.install, wanted.finalize):
        assert not re.search("@(PACKAGES|SPARE)@", script)


def test_extra_packages_are_part_of_the_key():
    """In whatever order; one that every guest has makes no other image."""
    plain, one, two = (recipe("trixie", names) for names in ((), ["a2ps"], ["a2ps", "bc"]))
    assert len({plain.key, one.key, two.key}) == 3
    assert recipe("trixie", ["bc", "a2ps", "bc", "perftest"]) == two
    assert recipe("trixie", ["perftest"]) == plain == two.base
    assert (plain.title, two.title) == ("trixie", "trixie with a2ps, bc")
    assert "install -- a2ps bc\n" in two.install


@pytest.mark.parametrize(
    "name",
    ["", "a", "-oDir=x", "--yes", "a b", "a;b", "$(a)", "a=1", "a/sid", "a:i386", "A2ps", "foo-",
     "?essential", "./a.deb", "a,b", "a\n", "ä2"],
)  # fmt: skip
def test_what_is_no_name_of_a_package(name):
    with pytest.raises(LabError, match="is not the name of a Debian package"):
        recipe("trixie", ["fio", name])


def test_a_kernel_is_no_extra_package():
    with pytest.raises(LabError, match="linux-image-rt-amd64 would not be booted: --kernel"):
        recipe("trixie", ["linux-image-rt-amd64"])


@pytest.mark.parametrize("name", ["g++", "libstdc++6", "python3.13", "0ad", "ucx-utils"])
def test_names_of_packages(name):
    assert recipe("trixie", [name]).extra == (name,)


def test_python_packages_are_part_of_the_key(tmp_path):
    """A wheel by name and content; images without any keep their key."""
    wheel = tmp_path / "mine-1.0-py3-none-any.whl"
    wheel.write_bytes(b"content")
    plain, one = recipe("trixie"), recipe("trixie", python=["six", str(wheel)])
    assert (plain.key, plain.python, plain.unpack) == (one.base.key, (), "")
    assert one.python[0].startswith("mine-1.0-py3-none-any.whl ed7002b439e9ac845f22357d822bac14")
    assert recipe("trixie", python=one.python) == one
    assert one.title == "trixie with mine-1.0-py3-none-any.whl, six"
    assert "for name in ; do" in one.restore
    assert one.install == ""
    with pytest.raises(LabError, match=r"gone\.whl: No such file"):
        recipe("trixie", python=["gone.whl"])
    with pytest.raises(LabError, match="guests of s390x have no additional Python packages"):
        recipe("sid", (), ARCHITECTURES["s390x"], ["six"])

"""Recipes of chaos: defaults of options, all mistakes with their lines, and the examples."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from emu.guests.requested import requested
from emu.host import shipped
from emu.host.user_error import UserError
from emu.instruments.chaos.recipe import read_recipe

RECIPES = shipped.examples("recipe")
SHARE = "/mnt/share"
GOOD = """
about = "A test."
command = "sh ./test.sh 'one word' other"
peer = "sh ./server.sh"
link = "eth"
sets = ["@kernel", "own.toml"]
only = ["link-*"]
compare = true
timeout = 60
[guest]
probe = false
packages = ["bc"]
pip = ["six==1.17.0"]
memory = 1024
"""


def read(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return read_recipe(path)


def test_a_recipe_is_words_and_defaults_of_options(tmp_path):
    found = read(tmp_path, GOOD)
    assert found.words == ("sh", "./test.sh", "one word", "other")
    assert found.values == {
        "peer": "sh ./server.sh", "link": "eth", "sets": ("@kernel", str(tmp_path / "own.toml")),
        "patterns": ("link-*",), "is_compared": True, "timeout": 60,
        "probe": False, "share": str(tmp_path), "packages": ("bc",), "pip": ("six==1.17.0",),
        "memory_mib": 1024,
    }  # fmt: skip


def test_paths_are_relative_to_the_recipe(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "mine-1.0-py3-none-any.whl").touch()
    table = '[guest]\nshare = "own"\nwheels = ["mine-1.0-py3-none-any.whl"]\n'
    found = read(tmp_path, f'about = "A test."\ncommand = "true"\n{table}').values
    assert found["share"] == str(tmp_path / "own")
    assert found["wheels"] == (str(tmp_path / "mine-1.0-py3-none-any.whl"),)


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('command = "x"', 1, "about"),
        ('about = "a"\ncommand = ""', 2, "command"),
        ('about = "a"\ncommand = "  "', 2, "no word"),
        ('about = "a"\ncommand = "\'"', 2, "No closing quotation"),
        ('about = "a"\ncommand = "x"\npeer = " "', 3, "no word"),
        ('about = "a"\ncommand = "x"\nlinks = "ib"', 3, "links"),
        ('about = "a"\ncommand = "x"\nlink = "roce"', 3, "ib"),
        ('about = "a"\ncommand = "x"\ntimeout = 0', 3, "timeout"),
        ('about = "a"\ncommand = "x"\n[guest]\npackages = ["-o"]', 4, "name of a Debian package"),
        ('about = "a"\ncommand = "x"\n[guest]\npip = ["x.whl"]', 4, "is a wheel: --wheel"),
        ('about = "a"\ncommand = "x"\n[guest]\nwheels = ["gone.whl"]', 4, "no file"),
        ('about = "a"\ncommand = "x"\n[guest]\nfaults = "@bus-gone"', 4, "or of the set"),
        ('about = "a"\ncommand = "x"\n[guest]\nshare = "gone"', 4, "no directory"),
        ('about = "a"\ncommand = "x"\n[guest]\ndevices = ["connectx9"]', 4, "connectx9"),
    ],
)
def test_a_mistake_has_its_line_and_reason(tmp_path, text, line, why):
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert f"recipe.toml:{line}: " in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("name", RECIPES)
def test_an_example_is_valid_and_runs_a_program_of_its_directory(name):
    recipe = read_recipe(RECIPES[name])
    options = {one: value for one, value in recipe.values.items() if one not in OF_CHAOS}
    made = requested(options)
    assert made.share is not None
    for words in (recipe.words, *_peers_words(recipe.values)):
        programs = [word for word in words if word.startswith("./")]
        assert programs
        assert all((made.share / word).is_file() for word in programs)
    assert f"mlx5emu chaos --recipe @{name}\n" in RECIPES[name].read_text()


OF_CHAOS = ("peer", "link", "sets", "patterns", "is_compared", "timeout", "patience")


def _peers_words(values):
    return [shlex.split(values["peer"])] if "peer" in values else []


def test_the_page_has_a_row_for_each_example():
    page = (next(iter(RECIPES.values())).parent / "README.md").read_text()
    missing = [name for name in RECIPES if f"| [{name}]({name}.toml) |" not in page]
    assert not missing


@pytest.mark.parametrize("path", sorted(RECIPES["rping"].parent.glob("*.sh")), ids=lambda p: p.name)
def test_a_script_has_no_mistake_of_syntax(path: Path):
    done = subprocess.run(["sh", "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), shlex.quote(str(path))

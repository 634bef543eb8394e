"""Proposals for patches: where an edit goes in a function, and the diff that it makes."""

from __future__ import annotations

import dataclasses
import subprocess
import tomllib
from pathlib import Path

import pytest

import firmware_cmds  # noqa: F401  (declares the commands)
from emu.host.user_error import UserError
from emu.instruments.fuzz.report.mail import mail, of_library
from emu.instruments.fuzz.report.patch import DoesNotFitError, Edit, Fix, diff, fix_of

FOLDER = Path(__file__).parents[4] / "examples" / "findings"
FIXES = tomllib.loads((FOLDER / "fixes.toml").read_text())
WITHOUT = {"module-read-in-32-words", "page-that-was-never-given"}
"""Those of kernels that newer ones have corrected."""
FILE = "drivers/x.c"
SOURCE = """\
static int odd(int i);
static int even(int i);

static int odd_one(int i)
{
	return odd(i);
}

static int odd(int i)
{
	if (i)
		return even(i - 1);
	return 0;
}

static unsigned long
even(int i)
{
	return odd(i);
}
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "drivers").mkdir()
    (tmp_path / FILE).write_text(SOURCE)
    return tmp_path


def edit(function="odd", where="before", words="if (i)", lines=("\tcheck(i);",)):
    return Edit(FILE, function, where, words, lines)


@pytest.mark.parametrize(
    ("where", "changed"),
    [
        ("before", ["+\tcheck(i);"]),
        ("after", ["+\tcheck(i);"]),
        ("instead", ["-\tif (i)", "+\tcheck(i);"]),
    ],
)
def test_where_the_lines_go(tree, where, changed):
    lines = diff(Fix("", (edit(where=where),)), tree)
    assert lines[0] == f"diff --git a/{FILE} b/{FILE}"
    assert [one for one in lines[3:] if one[0] in "+-"] == changed
    near = lines[lines.index("+\tcheck(i);") - 1]
    assert near == {"before": " {", "after": " \tif (i)", "instead": "-\tif (i)"}[where]


def test_git_takes_it(tree):
    fix = Fix("", (edit(), edit("even", "instead", "return odd(i)", ("\treturn 0;",))))
    text = "\n".join(diff(fix, tree)) + "\n"
    subprocess.run(["git", "apply", "-"], input=text, text=True, check=True, cwd=tree)
    *head, last = SOURCE.replace("\tif (i)", "\tcheck(i);\n\tif (i)").split("\treturn odd(i);")
    assert (tree / FILE).read_text() == "\treturn odd(i);".join(head) + "\treturn 0;" + last


@pytest.mark.parametrize(
    "one",
    [
        edit(words="if (j)"),
        edit(words="return"),
        edit("odd_one"),
        edit("none"),
        dataclasses.replace(edit(), file="drivers/y.c"),
    ],
)
def test_sources_without_the_place(tree, one):
    with pytest.raises(DoesNotFitError):
        diff(Fix("", (one,)), tree)


@pytest.mark.parametrize(
    "text",
    ["= 7", "x = 1", "[x]\nfindings = 3\n", '[x]\nfindings = ["a"]\n',
     '[x]\nfindings = ["a"]\nwhy = "w"\n[[x.edit]]\nfile = "f"\nfunction = "g"\nlines = ""\n'],
)  # fmt: skip
def test_a_file_of_no_proposals(tmp_path, text):
    (tmp_path / "fixes.toml").write_text(text)
    with pytest.raises(UserError, match="proposals"):
        fix_of(tmp_path, "a")


def test_a_finding_without_a_proposal(tmp_path):
    assert fix_of(tmp_path, "a") is None
    assert fix_of(FOLDER, "a") is None


def test_every_finding_has_one():
    plans = {path.stem for path in FOLDER.glob("*.toml")} - {"findings", "fixes"}
    proposed = [name for table in FIXES.values() for name in table["findings"]]
    assert sorted(proposed) == sorted(plans - WITHOUT)


@pytest.mark.parametrize("name", FIXES)
def test_what_is_proposed(name):
    fix = fix_of(FOLDER, FIXES[name]["findings"][0])
    assert fix is not None
    assert fix.why.endswith(".")
    for one in fix.edits:
        assert one.lines
        assert all(not line or line.startswith("\t") for line in one.lines)


def test_the_mail_has_it(tmp_path):
    plan = FOLDER / "event-of-the-drop-queue.toml"
    report = of_library(plan)
    assert "--tree SOURCES" in mail(report)
    file = tmp_path / report.fix.edits[0].file
    file.parent.mkdir(parents=True)
    file.write_text(
        "void mlx5e_completion_event(int *mcq)\n{\n\tone();\n\tnapi_schedule(cq->napi);\n}\n"
    )
    lines = mail(report, tmp_path).splitlines()
    assert report.fix.why in lines
    assert lines.index("+\tif (unlikely(!cq->napi))") > lines.index("---")
    file.write_text("nothing\n")
    assert "does not fit" in mail(report, tmp_path)

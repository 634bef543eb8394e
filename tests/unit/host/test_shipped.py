"""Examples and pages that come with the package, by their names."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.cli.shared.files import ExampleFile
from emu.host import shipped
from emu.host.user_error import UserError
from emu.server.service.plan_files import read_plan


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("plan", "link-flaps", "examples/faults/link-flaps.toml"),
        ("plan", "wan", "examples/links/wan.toml"),
        ("plan", "no-ports", "examples/findings/no-ports.toml"),
        ("lab", "roce", "examples/lab/roce.toml"),
        ("lab", "hosts", "examples/subnet/hosts.toml"),
        ("subnet", "two-leaves", "examples/subnet/two-leaves.net"),
        ("campaign", "refused", "examples/campaigns/refused.toml"),
        ("failure set", "verbs", "examples/chaos/verbs.toml"),
        ("program", "exchange.c", "examples/programs/exchange.c"),
    ],
)
def test_an_example_by_its_name(kind, name, path):
    assert shipped.example(kind, name) == shipped.root() / path
    assert ExampleFile(kind).convert(f"@{name}", None, None) == shipped.root() / path


def test_examples_are_shown_by_their_names(tmp_path):
    assert shipped.shown(shipped.example("plan", "wan")) == "@wan"
    for path in (tmp_path / "wan.toml", Path("examples/links/wan.toml")):
        assert shipped.shown(path) == str(path)


def test_every_plan_by_name_is_a_plan():
    for path in shipped.examples("plan").values():
        assert read_plan(path).rule or read_plan(path).link


def test_a_name_that_no_example_has():
    says = "no campaign @refuse; near it: @refused; known: @all-architectures, @loading"
    with pytest.raises(UserError, match=says):
        shipped.example("campaign", "refuse")
    says = "no plan @zz; all are in mlx5emu guide @faults or @links or @findings"
    with pytest.raises(UserError, match=says):
        shipped.example("plan", "zz")
    result = CliRunner().invoke(main, ["run", "--faults", "@link-flap", "--", "true"])
    assert (result.exit_code, "near it: @link-flaps" in result.output) == (2, True)


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "@wan").touch()
    assert ExampleFile("plan").convert("@wan", None, None).name == "@wan"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("lab", "up", "examples/lab/pair.toml"), "@pair"),
        (("campaign", "list", "traffic.toml"), "@traffic"),
        (("run", "--faults", "examples/links/wan.toml", "--", "true"), "@wan"),
        (("run", "--subnet", "examples/subnet/two-leaves.net", "--", "true"), "@two-leaves"),
        (("run", "--faults", "link-flaps", "--", "true"), "@link-flaps"),
        (("fuzz", "replay", "examples/findings/pages-overflow.toml"), "@pages-overflow"),
    ],
)
def test_a_missing_file_with_the_name_of_an_example(words, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert f"{name} is an example of that name" in " ".join(result.output.split())


def test_a_shell_completes_examples():
    words = [item.value for item in ExampleFile("campaign").shell_complete(None, None, "@re")]
    assert words == ["@refused"]


def test_pages_of_the_guide():
    result = CliRunner().invoke(main, ["guide", "fault"])
    assert (result.exit_code, "no page 'fault'; near it: faults" in result.output) == (1, True)
    result = CliRunner().invoke(main, ["guide", "faults"])
    assert result.output == shipped.pages()["faults"].read_text()


def test_an_example_to_read_or_to_keep():
    for name in ("exchange.py", "link-flaps", "faults"):
        result = CliRunner().invoke(main, ["guide", f"@{name}"])
        assert result.output == shipped.all_examples()[name].read_text()
    result = CliRunner().invoke(main, ["guide", "@exchang.py"])
    assert (result.exit_code, "near it: exchange.py" in result.output) == (1, True)


def test_a_name_means_one_example():
    known = shipped.all_examples()
    for kind in shipped.FOLDERS:
        for name, path in shipped.examples(kind).items():
            assert (known[name], name in shipped.pages()) == (path, False)


def contexts(command, words=()):
    """The contexts of a command and of those below it, by their words."""
    with command.context_class(command, info_name=" ".join(("mlx5emu", *words))) as context:
        yield " ".join(words), context
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                yield from contexts(command.get_command(context, name), (*words, name))


def test_each_plan_may_be_an_example():
    options = {
        words: option.type
        for words, context in contexts(main)
        for option in context.command.params
        if "--faults" in option.opts and not option.hidden  # hidden: only to be refused
    }
    assert {"run", "up", "serve", "rdma-tests"} <= options.keys()
    assert [words for words, kind in options.items() if not isinstance(kind, ExampleFile)] == []


def test_help_texts_name_what_a_wheel_has():
    texts = {words: context.get_help() for words, context in contexts(main)}
    assert len(texts) > 50
    folders = {folder for folders in shipped.FOLDERS.values() for folder in folders}
    files = shipped.files()
    known = {*shipped.pages(), *(f"@{name}" for name in shipped.all_examples()), "PAGE", "@NAME"}
    for words, text in texts.items():
        flat = " ".join(text.split())
        assert not re.search(r"scripts/|share/|tests/|\.md\b", flat), words
        named = {one for one in re.findall(r"examples/[\w./-]*\w", flat) if one not in files}
        assert {one.split("/")[1] for one in named} <= folders, words
        assert set(re.findall(r"guide (@?[a-z][\w.]+)(?!/)\b", flat)) - {"page"} <= known, words

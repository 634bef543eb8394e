"""Examples and pages that come with the package, by their names."""

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
        ("campaign", "refused", "examples/campaigns/refused.toml"),
        ("program", "exchange.c", "examples/programs/exchange.c"),
    ],
)
def test_an_example_by_its_name(kind, name, path):
    assert shipped.example(kind, name) == shipped.root() / path
    assert ExampleFile(kind).convert(f"@{name}", None, None) == shipped.root() / path


def test_every_plan_by_name_is_a_plan():
    for path in shipped.examples("plan").values():
        assert read_plan(path).rule or read_plan(path).link


def test_a_name_that_no_example_has():
    with pytest.raises(UserError, match=r"no campaign @refuse; near it: refused; examples/camp"):
        shipped.example("campaign", "refuse")
    result = CliRunner().invoke(main, ["run", "--faults", "@link-flap", "--", "true"])
    assert (result.exit_code, "near it: link-flaps" in result.output) == (2, True)


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "@wan").touch()
    assert ExampleFile("plan").convert("@wan", None, None).name == "@wan"


def test_a_shell_completes_examples():
    words = [item.value for item in ExampleFile("campaign").shell_complete(None, None, "@re")]
    assert words == ["@refused"]


def test_pages_of_the_guide():
    result = CliRunner().invoke(main, ["guide", "fault"])
    assert (result.exit_code, "no page 'fault'; near it: faults" in result.output) == (1, True)
    result = CliRunner().invoke(main, ["guide", "faults"])
    assert result.output == shipped.pages()["faults"].read_text()


def test_an_example_to_read_or_to_keep():
    for name in ("exchange.py", "link-flaps"):
        result = CliRunner().invoke(main, ["guide", f"@{name}"])
        assert result.output == shipped.all_examples()[name].read_text()
    result = CliRunner().invoke(main, ["guide", "@exchang.py"])
    assert (result.exit_code, "near it: exchange.py" in result.output) == (1, True)


def test_a_name_means_one_example():
    count = sum(len(shipped.examples(kind)) for kind in shipped.FOLDERS)
    assert len(shipped.all_examples()) == count

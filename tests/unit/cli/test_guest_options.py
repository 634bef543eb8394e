"""Every option of a guest in every use: there with one default, or refused with one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.cli.options.guest import AS_RECORDED, OF_RECORD, given_values, is_restored
from emu.guests import GuestOptions, LabError
from emu.guests.named import topology
from emu.guests.options import Use, options, records
from emu.guests.options.kinds import Choice, Flag, Seconds, Share, Whole, Words
from emu.guests.options.table import markdown
from emu.guests.requested import requested
from emu.host import shipped
from emu.host.user_error import UserError
from emu.instruments.campaign import matrix, matrix_tables
from emu.instruments.campaign.description import Description
from emu.server.service.trace_file import DEFAULT_MIB

OPTIONS = {one.name: one for one in options()}
COMMANDS = [use for use in Use if use.value.startswith("mlx5emu") and use not in
            (Use.LAB, Use.CAMPAIGN)]  # fmt: skip
FILES = (Use.LAB, Use.CAMPAIGN)
TABLES: dict[Use, dict[str, Any]] = {
    Use.LAB: {"guest": topology.LabGuestTable, "server": topology.ServerTable},
    Use.CAMPAIGN: {"guest": matrix_tables.MatrixGuestTable, "kernel": matrix_tables.KernelTable,
                   "device": matrix_tables.DeviceTable, "workload": matrix_tables.WorkloadTable},
}  # fmt: skip
MAPS = {
    Use.LAB: '[[guest]]\nname = "a"\n',
    Use.CAMPAIGN: '[[workload]]\nname = "w"\nrun = "x"\n[guest]\n',
}


def command_of(use):
    """The command of click's that a use is."""
    command = main
    for name in use.value.split()[1:]:
        command = command.get_command(None, name)
    return command


def parameter(use, one):
    (found,) = [p for p in command_of(use).params if f"--{one.flag}" in p.opts]
    return found


def a_word(one):
    """Something that can be said of an option, as TOML."""
    if isinstance(one.kind, Flag):
        return "true"
    if isinstance(one.kind, Whole | Seconds):
        return f"{getattr(one.kind, 'least', 0) or 3}"
    if isinstance(one.kind, Words):
        return '["x"]'
    return f'"{one.kind.among[0]}"' if isinstance(one.kind, Choice) else '"x"'


def read(use, path):
    return (topology if use is Use.LAB else matrix).read(path)


def pairs(uses, *, refused):
    return [
        pytest.param(use, one, id=f"{use.name.lower()}-{one.flag}")
        for use in uses
        for one in options()
        if bool(one.why_not(use)) == refused
    ]


@pytest.mark.parametrize(("use", "one"), pairs(COMMANDS, refused=False))
def test_a_command_has_it_with_the_default_and_the_help(use, one):
    found = parameter(use, one)
    assert found.name == one.name
    assert found.default == (() if isinstance(one.kind, Words) else one.default)
    assert found.help.startswith(one.help)
    default = AS_RECORDED if use in OF_RECORD and is_restored(one) else one.default_text
    assert found.help.endswith(f"[default: {default}]") == bool(default)
    assert not found.hidden


@pytest.mark.parametrize(("use", "one"), pairs(COMMANDS, refused=True))
def test_a_command_refuses_it_in_a_sentence(use, one, tmp_path):
    (tmp_path / "file").touch()
    required = [str(tmp_path / "file"), "x"] if use in (Use.REPLAY, Use.MINIMIZE) else []
    words = [f"--{one.flag}"] + ([] if isinstance(one.kind, Flag) else ["x"])
    done = CliRunner().invoke(main, [*use.value.split()[1:], *words, *required])
    assert done.exit_code == 2
    assert f"--{one.flag}: {one.why_not(use)}" in " ".join(done.output.split())
    assert parameter(use, one).hidden


@pytest.mark.parametrize(("use", "one"), pairs(FILES, refused=False))
def test_a_file_has_it_with_the_default(use, one):
    model = TABLES[use][one.table(use)]
    assert model.model_fields[one.word].default == one.default
    others = [name for name, other in TABLES[use].items() if other is not model]
    for name in others:
        assert TABLES[use][name].refused[one.word] == f"a key of {one.table(use)}"


@pytest.mark.parametrize(("use", "one"), pairs(FILES, refused=True))
def test_a_file_refuses_it_in_a_sentence_with_its_line(use, one, tmp_path):
    path = tmp_path / "file.toml"
    text = f"{MAPS[use]}{one.word} = {a_word(one)}\n"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read(use, path)
    line = text.count("\n")
    assert str(caught.value) == f"{path}:{line}: {one.word}: {one.why_not(use)}"


@pytest.mark.parametrize("one", options(), ids=lambda one: one.flag)
def test_pytest_has_it_or_refuses_it(one, pytester_options):
    flag = f"--mlx5-{'no-' if one.default is True else ''}{one.flag}"
    has_value = not isinstance(one.kind, Flag)
    why = one.why_not(Use.PYTEST)
    value = {"suite": "sid"}.get(one.name, a_word(one).strip('[]"'))
    parsed, failed = pytester_options(flag, *([value] if has_value else []))
    if why:
        assert f"{flag}: {why}" in failed
    else:
        assert not failed
        assert getattr(parsed, f"mlx5_{one.name}") not in (None, [])


@pytest.fixture
def pytester_options():
    """What pytest's parser makes of words, and its complaint."""
    from _pytest.config.argparsing import Parser

    from emu import pytest_plugin

    def parse(*words):
        parser = Parser(_ispytest=True)
        pytest_plugin.pytest_addoption(parser)
        try:
            return parser.parse(list(words)), ""
        except pytest.UsageError as error:
            return None, " ".join(str(error).split())

    return parse


def test_pytest_takes_examples_by_name(pytester_options):
    """After ``=``: pytest reads a word of its own that begins with ``@`` as a file of options."""
    chosen, _ = pytester_options("--mlx5-faults=@command-late", "--mlx5-subnet=@two-leaves")
    assert chosen.mlx5_faults == str(shipped.example("plan", "command-late"))
    assert chosen.mlx5_subnet == str(shipped.example("subnet", "two-leaves"))
    _, why = pytester_options("--mlx5-faults=@command-latte")
    assert "no plan @command-latte; near it: @command-late" in why


def test_one_sentence_for_one_reason():
    """An option is refused with the same words wherever it is refused for the same reason."""
    for one in options():
        by_option = set(one.refused.values())
        assert len(by_option) <= 2, one.name
        assert all(why and why[-1] != "." for why in by_option)


def test_nothing_said_is_the_same_guest_everywhere(tmp_path):
    run = command_of(Use.RUN).make_context("run", ["true"]).params
    names = {name: value for name, value in run.items() if name in (*OPTIONS, "no_device")}
    lab, campaign = tmp_path / "lab.toml", tmp_path / "campaign.toml"
    lab.write_text(MAPS[Use.LAB])
    campaign.write_text(MAPS[Use.CAMPAIGN])
    (node,) = topology.read(lab).nodes
    (one,) = matrix.read(campaign).runs
    assert (
        requested(given_values(names))
        == node.options
        == requested(one.guest.given())
        == GuestOptions()
    )
    assert (GuestOptions().memory_mib, GuestOptions().cpus) == (2048, 2)
    assert GuestOptions(icount=1).cpus == 1


@pytest.mark.parametrize("use", FILES)
def test_options_in_files_are_those_of_the_command_line(use, tmp_path):
    (tmp_path / "src").mkdir()
    text = 'icount = 3\naccel = "tcg"\nmemory = 1024\nnetwork = true\nshare = "src:rw"\n'
    path = tmp_path / "file.toml"
    path.write_text(MAPS[use] + text + ("probe = false\n" if use is Use.LAB else ""))
    if use is Use.CAMPAIGN:
        path.write_text(path.read_text().replace('run = "x"', 'run = "x"\nprobe = false'))
        found = requested(matrix.read(path).runs[0].guest.given())
    else:
        found = topology.read(path).nodes[0].options
    words = ["--icount", "3", "--accel", "tcg", "--memory", "1024", "--network", "--no-probe",
             "--share", f"{tmp_path}/src:rw", "true"]  # fmt: skip
    run = command_of(Use.RUN).make_context("run", words).params
    names = {name: value for name, value in run.items() if name in (*OPTIONS, "no_device")}
    assert found == requested(given_values(names))
    assert (found.cpus, found.share_writable) == (1, True)


class TestShare:
    """``:rw`` means one thing: the guest may write, unless a directory's own name ends so."""

    @pytest.mark.parametrize(
        ("word", "name", "is_writable"),
        [
            ("d", "d", False),
            ("d:rw", "d", True),
            ("e:rw", "e:rw", False),
            ("e:rw:rw", "e:rw", True),
        ],
    )
    def test_in_all_uses(self, tmp_path, word, name, is_writable):
        for directory in ("d", "e:rw"):
            (tmp_path / directory).mkdir()
        found = [requested({"share": word}, tmp_path)]
        for use in FILES:
            path = tmp_path / "file.toml"
            path.write_text(f'{MAPS[use]}share = "{word}"\n')
            told = read(use, path)
            found.append(
                told.nodes[0].options if use is Use.LAB else requested(told.runs[0].guest.given())
            )
        kind = parameter(Use.RUN, OPTIONS["share"]).type
        path, writable = kind.convert(str(tmp_path / word), None, None)
        found.append(GuestOptions(share=path, share_writable=writable))
        assert {(one.share, one.share_writable) for one in found} == {
            (tmp_path / name, is_writable)
        }

    def test_a_path_with_a_field_beside_it(self, tmp_path):
        """As tests' markers have always had it."""
        made = requested({"share": tmp_path, "share_writable": True})
        assert (made.share, made.share_writable) == (tmp_path, True)

    def test_a_directory_that_is_not_there(self, tmp_path):
        with pytest.raises(LabError, match="share: no directory"):
            requested({"share": "x:rw"}, tmp_path)


def test_kinds_of_fields_are_those_of_the_share():
    assert [one.name for one in options() if isinstance(one.kind, Share)] == ["share"]


class TestRecord:
    """What a record tells of its guest, and what a replay makes of it."""

    def test_there_and_back(self):
        made = GuestOptions(
            suite="sid", packages=("bc",), pip=("six",), memory_mib=1024, icount=2, probe=False,
            network=True, kernel_arguments=("quiet",), hugepages=8,
        )  # fmt: skip
        told = records.options_of(json.loads(json.dumps(records.recorded(made))))
        assert requested(told) == made

    def test_one_of_old(self):
        run = {"suite": "sid", "packages": ["bc"], "kernel": None, "modules": None}
        assert requested(records.options_of(run)) == GuestOptions(suite="sid", packages=("bc",))

    @pytest.mark.hostile
    @pytest.mark.parametrize("run", [{"memory": "x"}, {"cpus": 1e99}, {"kernel_args": 1},
                                     {"suite": []}, {"packages": [1]}])  # fmt: skip
    def test_what_no_option_has(self, run):
        with pytest.raises(ValueError, match=next(iter(run))):
            records.options_of(run)


def test_a_campaign_that_was_begun_earlier_goes_on(tmp_path):
    """Some options stood beside the guest then; it is the same run."""
    path = tmp_path / "matrix.toml"
    path.write_text('[[workload]]\nname = "w"\nrun = "true"\n[[device]]\nname = "d"\n'
                    'devices = ["connectx7"]\n')  # fmt: skip
    (run,) = matrix.read(path).runs
    now = json.loads(run.model_dump_json())
    old = {
        **{name: value for name, value in now.items() if name != "guest"},
        "suite": "trixie", "kernels": [], "devices": ["connectx7"], "probe": True,
        "guest": {"packages": [], "memory": 2048, "cpus": None, "icount": None, "hugepages": 0,
                  "network": False, "kernel_args": [], "accel": "auto", "share": None,
                  "boot_timeout": 180.0},
    }  # fmt: skip
    assert Description.model_validate_json(json.dumps(old)) == run
    assert Description.model_validate_json(run.model_dump_json()) == run


def test_the_limit_of_a_trace_is_the_servers():
    assert OPTIONS["trace_limit"].default_text == f"{DEFAULT_MIB}"


def test_the_page_of_all_options_is_current():
    """scripts/gen-options-table writes it."""
    page = Path(__file__).parents[3] / "emu/guests/options/README.md"
    assert page.read_text() == markdown()
    for one in options():
        assert f"`--{one.flag}`" in page.read_text()

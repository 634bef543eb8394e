"""What a shell is offered when it completes a word."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from emu.cli import main
from emu.device.faults.schema import ACTIONS, POINTS
from emu.device.models import MODELS
from emu.server.service.views import kind_named
from layouts.enums.cmd import Op


def offered(line, shell="zsh"):
    """What completes the last word of a line; bash takes ``=`` for a word of its own."""
    words = line.split(" ")
    environ = {
        "_MLX5EMU_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    lines = CliRunner().invoke(main, [], env=environ, prog_name="mlx5emu").output.splitlines()
    if shell == "bash":
        return {said.removeprefix("plain,") for said in lines if said.startswith("plain,")}
    return {word for kind, word in zip(lines[::3], lines[1::3]) if kind == "plain"}


class TestDevice:
    @pytest.mark.parametrize("command", ["run", "up", "boot", "serve"])
    def test_models(self, command):
        assert offered(f"mlx5emu {command} --device connectx6") == {
            name for name in MODELS if name.startswith("connectx6")
        }

    def test_settings(self):
        assert offered("mlx5emu run --device connectx5,li") == {
            "connectx5,lid=", "connectx5,link=ib", "connectx5,link=eth",
        }  # fmt: skip
        assert offered("mlx5emu run --device connectx5,lid=3,od") == {
            "connectx5,lid=3,odp=", "connectx5,lid=3,odp_all=",
        }  # fmt: skip

    def test_ways_of_keys(self):
        assert offered("mlx5emu run --device connectx6,cr") == {
            "connectx6,crypto=plaintext", "connectx6,crypto=wrapped",
        }  # fmt: skip

    def test_a_model_without_a_port_of_that_kind(self):
        assert offered("mlx5emu run --device connectx6dx,link") == {"connectx6dx,link=eth"}
        assert offered("mlx5emu run --device nonsense,link") == set()


def test_kernels_of_the_archive():
    assert offered("mlx5emu run --kernel debian:") == {"debian:rt", "debian:cloud"}


def test_kinds_of_objects():
    assert offered("mlx5emu objects --kind mk") == {"mkey"}
    assert offered("mlx5emu objects --kind p") == {
        "packet-reformat-context",
        "page-fault",
        "pd",
        "psv",
    }
    for kind in offered("mlx5emu objects --kind "):
        assert kind_named(kind) == kind.replace("-", " ")


def test_commands():
    assert offered("mlx5emu trace show --op CREATE_CQ,CREATE_Q") == {
        f"CREATE_CQ,{op.name}" for op in Op if op.name.startswith("CREATE_Q")
    }


def test_points_of_a_trace():
    assert offered("mlx5emu trace show --point cmd,eq") == {"cmd,eqe"}


def test_fault_points():
    assert offered("mlx5emu fault points cmd") == {name for name in POINTS if name[:3] == "cmd"}


class TestRule:
    def test_keys(self):
        assert offered("mlx5emu fault add po") == {"point="}
        assert offered("mlx5emu fault add dev point=cmd match.") == {
            f"match.{field}=" for field in POINTS["cmd"].fields
        }

    def test_parameters_of_the_action(self):
        assert offered("mlx5emu fault add point=cmd action=fail stat") == {"status="}
        assert offered("mlx5emu fault add point=cmd stat") == set()

    def test_values(self):
        assert offered("mlx5emu fault add point=cmd.d") == {"point=cmd.done"}
        possible = {name for name, one in ACTIONS.items() if "irq" in one.uses}
        assert offered("mlx5emu fault add point=irq action=") == {f"action={n}" for n in possible}
        assert offered("mlx5emu fault add point=cmd match.op=CREATE_CQ") == {"match.op=CREATE_CQ"}
        assert offered("mlx5emu fault add point=cmd match.slot=") == set()
        assert offered("mlx5emu fault add point=nonsense match.op=") == set()

    def test_as_bash_says_it(self):
        assert offered("mlx5emu fault add point = cmd.d", "bash") == {"cmd.done"}
        assert offered("mlx5emu fault add point =", "bash") == set(POINTS)
        assert "fail" in offered("mlx5emu fault add point = cmd action = fa", "bash")
        assert offered("mlx5emu fault add = x", "bash") == set()

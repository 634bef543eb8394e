"""mypy knows the fields of structures by their names, in handlers and wherever there is a view."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

HANDLERS = '''\
from emu.device.cmdif.registry import command
from emu.device.state.hca import Hca
from layouts.enums.cmd import Op
from layouts.objects import cq as layout


@command(Op.CREATE_CQ)
def create_cq(hca: Hca, cmd: layout.create_cq_in, out: layout.create_cq_out) -> None:
    ctx = layout.cqc.view(bytearray(bytes(cmd.cq_context)))
    out.cqn = cmd.cq_context.log_cq_size + ctx.uar_page + cmd.pas[0]
    cmd.cq_context = bytes(ctx)
    hca.caps.general.log_max_cq
{wrong}


@command(Op.QUERY_CQ)
def query_cq(hca: Hca, cmd: layout.query_cq_in, out: layout.query_cq_out) -> None:
    """Return the context."""
'''
WRONG = {
    "cmd.cq_ctx": '"create_cq_in" has no attribute "cq_ctx"',
    "cmd.cq_context.log_cq_sz": '"cqc" has no attribute "log_cq_sz"',
    "ctx.log_cq_sz": '"cqc" has no attribute "log_cq_sz"',
    "out.cq = 1": '"create_cq_out" has no attribute "cq"',
    "out.cqn = b''": 'variable has type "int"',
    "cmd.pas[0].hi": '"int" has no attribute "hi"',
    "hca.caps.general.log_max_cqs": '"cmd_hca_cap" has no attribute "log_max_cqs"',
}


def checked(source: str, where: Path) -> list[str]:
    """The lines with errors in a source, under the project's own settings."""
    where.joinpath("handlers.py").write_text(source)
    mypy = [sys.executable, "-m", "mypy", "--no-pretty", "--cache-dir", f"{where}/cache"]
    config = str(ROOT / "pyproject.toml")
    done = subprocess.run(
        [*mypy, "--config-file", config, f"{where}/handlers.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def test_names_as_declared_are_accepted(tmp_path):
    assert not checked(HANDLERS.format(wrong=""), tmp_path)


def test_a_misspelt_field_is_an_error(tmp_path):
    lines = "\n".join(f"    {line}" for line in WRONG)
    found = checked(HANDLERS.format(wrong=lines), tmp_path)
    missing = [error for error in WRONG.values() if not any(error in line for line in found)]
    assert not missing, "\n".join(found)
    assert len(found) == len(WRONG)

"""Coverage by function: stored, put together, shown; the sources' places; the guest's answer."""

import json
import re
import subprocess

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import GuestError
from emu.guests.channel import frames
from emu.host.user_error import UserError
from emu.instruments.coverage import data, session
from emu.instruments.coverage.data import Coverage, CoveredFunction, CoveredKernel, CoveredModule
from emu.instruments.coverage.inside import functions, modules
from emu.instruments.coverage.report import ALL_KERNELS, lcov, rows
from emu.instruments.coverage.source import KernelTree, SourcePlace

CORE = "drivers/net/core"


def coverage(release, calls, missed=0):
    functions = [
        CoveredFunction(name=name, offset=offset, calls=number) for name, offset, number in calls
    ]
    module = CoveredModule(directory=CORE, functions=functions)
    return Coverage(
        mlx5emu_coverage=1,
        kernels={release: CoveredKernel(runs=1, missed=missed, modules={"core": module})},
    )


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "linux"
    (root / CORE / "lib").mkdir(parents=True)
    (root / CORE / "main.c").write_text(
        "#include <x.h>\n\nint probe_one(struct pci_dev *pdev,\n\t\tint id)\n{\n\treturn 0;\n}\n\n"
        "static int show(void);\n\nstatic void\nremove_one(void)\n{\n\tshow();\n}\n"
    )
    (root / CORE / "lib" / "eq.c").write_text(
        "struct x y = {\n\t.a = b(c),\n};\n\nint create_eq(void)\n{\n}\n\n"
        "static int show(void)\n{\n}\n"
    )
    (root / CORE / "lib" / "cq.c").write_text(
        "int create_cq(void)\n{\n}\n\nstatic int show(void)\n{\n}\n"
    )
    return root


def test_runs_of_a_kernel_add_up_and_kernels_stay_apart():
    found = data.merge(
        [
            coverage("6.12", [("a", 0, 1), ("b", 16, 0)], missed=2),
            coverage("6.12", [("a", 0, 2), ("b", 16, 5), ("init", None, 1)]),
            coverage("7.2", [("a", 32, 0), ("c", 48, 0)]),
        ]
    )
    kernel = found.kernels["6.12"]
    calls = {one.name: one.calls for one in kernel.modules["core"].functions}
    assert (kernel.runs, kernel.missed) == (2, 2)
    assert calls == {"a": 3, "b": 5, "init": 1}
    (row,) = rows(found, None)
    shares = {name: (share.ran, share.total) for name, share in row.shares.items()}
    assert shares == {"6.12": (3, 3), "7.2": (0, 2), ALL_KERNELS: (3, 4)}


def test_functions_of_one_name_stay_apart():
    found = data.merge([coverage("6.12", [("show", 0, 1), ("show", 64, 0)])] * 2)
    assert [one.calls for one in found.kernels["6.12"].modules["core"].functions] == [2, 0]


def test_a_file_is_read_back(tmp_path):
    path = tmp_path / "coverage.json"
    data.save(path, coverage("6.12", [("a", 0, 1), ("init", None, 1)]))
    assert data.load(path) == coverage("6.12", [("a", 0, 1), ("init", None, 1)])


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}x", "{}", "[" * 100_000),
        '{"mlx5emu_coverage": 1, "kernels": 3}',
        '{"mlx5emu_coverage": 2, "kernels": {}}',
        '{"mlx5emu_coverage": 1, "kernels": {"6.12": {"runs": -1, "missed": 0, "modules": {}}}}',
        '{"mlx5emu_coverage": 1, "kernels": {"6\\u001b": {"runs": 1, "missed": 0, "modules": {}}}}',
        '{"mlx5emu_coverage": 1, "kernels": {"6": {"runs": 1, "missed": 0, "modules": {"m": '
        '{"directory": "a<b","functions": []}}}}}',
    ],
)  # fmt: skip
@pytest.mark.hostile
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "coverage.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"not a coverage file"):
        data.load(path)


def test_text_without_json_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "coverage.json"
    path.write_text("hello")
    with pytest.raises(UserError, match=r"is not a coverage file: invalid JSON: "):
        data.load(path)


def test_definitions_are_found_by_directory(tree):
    functions = [
        CoveredFunction(name=name, offset=offset, calls=1)
        for name, offset in [
            ("probe_one", 0), ("remove_one.cold", 16), ("create_eq", 32), ("show", 48),
            ("trace_event", 64), ("create_cq.isra.0", 80), ("show", 96),
        ]
    ]  # fmt: skip
    found = KernelTree(tree).places(CORE, functions)
    assert [found[one] for one in functions] == [
        SourcePlace(f"{CORE}/{file}", line)
        for file, line in [
            ("main.c", 3), ("main.c", 12), ("lib/eq.c", 5), ("lib/eq.c", 9), ("lib/eq.c", 0),
            ("lib/cq.c", 1), ("lib/cq.c", 5),
        ]
    ]  # fmt: skip


def test_a_trace_events_functions_are_of_the_file_that_makes_them(tree):
    """Before the first function of that file, whatever file stands before them."""
    (tree / CORE / "lib" / "diag").mkdir()
    (tree / CORE / "lib" / "diag" / "trace.h").write_text(
        "DECLARE_EVENT_CLASS(class,\n\tTP_PROTO(int x),\n);\n"
        "DEFINE_EVENT(class,\n\t     eq_event,\n\t     TP_PROTO(int x));\n"
        "TRACE_EVENT(own_event,\n\tTP_PROTO(int x),\n);\n"
    )
    (tree / CORE / "lib" / "traced.c").write_text(
        '#define CREATE_TRACE_POINTS\n#include "other.h"\n#include "diag/trace.h"\n'
        "int traced(void)\n{\n}\n"
    )
    names = ("probe_one", "__traceiter_eq_event", "__probestub_own_event", "macro", "traced")
    functions = [
        CoveredFunction(name=name, offset=16 * at, calls=1) for at, name in enumerate(names)
    ]
    found = KernelTree(tree).places(CORE, functions)
    assert [str(found[one]).removeprefix(f"{CORE}/") for one in functions] == [
        "main.c:3", *["lib/traced.c"] * 3, "lib/traced.c:4"
    ]  # fmt: skip


def test_table_by_directory_has_a_total(tree):
    found = coverage("6.12", [("probe_one", 0, 1), ("create_eq", 16, 0), ("create_cq", 32, 4)])
    table = [
        (row.directory, row.shares["6.12"].ran, row.shares["6.12"].total)
        for row in rows(found, KernelTree(tree))
    ]
    assert table == [(CORE, 1, 1), (f"{CORE}/lib", 1, 2), ("", 2, 3)]


def test_lcov_counts_functions_and_their_lines(tree):
    found = coverage("6.12", [("create_eq", 16, 7), ("show", 32, 0), ("macro", 48, 1)])
    assert list(lcov(found, KernelTree(tree))) == [
        "TN:6_12", f"SF:{tree / CORE}/lib/eq.c", "FN:5,create_eq", "FN:9,show",
        "FNDA:7,create_eq", "FNDA:0,show", "FNF:2", "FNH:1",
        "DA:5,7", "DA:9,0", "LF:2", "LH:1", "end_of_record",
    ]  # fmt: skip


def test_commands_show_and_merge(tmp_path, tree):
    one, other, both, html = (tmp_path / name for name in ("1", "2", "3", "page.html"))
    data.save(one, coverage("6.12", [("probe_one", 0, 1), ("<b>", 16, 0)]))
    data.save(other, coverage("7.2", [("probe_one", 0, 0), ("create_eq", 16, 1)]))
    run = CliRunner().invoke
    assert run(main, ["coverage", "merge", str(one), str(other), "--out", str(both)]).exit_code == 0
    shown = run(main, ["coverage", "show", str(both), "--source", str(tree), "--html", str(html)])
    assert shown.exit_code == 0
    assert "2 of 3, 66.7 %" in re.sub(r" +", " ", shown.output)
    assert "<b>" not in html.read_text()
    assert html.read_text().count("<details>") == 2
    told = json.loads(run(main, ["coverage", "show", str(both), "--json"]).output)
    assert told["rows"][0]["kernels"][ALL_KERNELS] == {"ran": 2, "total": 3}
    refused = run(main, ["coverage", "show", str(both), "--lcov", str(tmp_path / "x")])
    assert refused.exit_code == 1
    assert "--source" in refused.output


class FakeGuest:
    """A guest whose program has said all that it says."""

    is_running = True

    def __init__(self, *lines, stderr=b""):
        self.lines, self.stderr, self.status = lines, stderr, 0

    def popen(self, words, *, has_input, sink):
        assert has_input
        assert words[-1] == "core"
        if self.stderr:
            sink(frames.STDERR, self.stderr)
        for line in self.lines:
            sink(frames.STDOUT, line)
        return self

    def wait(self, job, timeout):
        return 0

    def close_input(self):
        pass


READY = b'{"ready":true}\n'
ANSWER = {
    "release": "6.12", "missed": 3, "loading": [["init", "core"], ["early", "core"]],
    "modules": {
        "core": {"directory": CORE, "base": 4096, "functions": [["a", 0, 2], ["early", 16, 0]]}
    },
}  # fmt: skip


def test_a_session_counts_what_ran_while_loading():
    counting = session.CoverageSession(
        FakeGuest(READY, json.dumps(ANSWER).encode() + b"\n"), ["core"]
    )
    counting.start()
    assert counting.finish() == coverage(
        "6.12", [("a", 0, 2), ("early", 16, 1), ("init", None, 1)], missed=3
    )


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("guest", "says"),
    [
        (FakeGuest(b'{"error":"core is loaded already"}\n'), "core is loaded already"),
        (FakeGuest(stderr=b"Traceback\nOSError: no\n"), "no answer: OSError: no"),
        (FakeGuest(b"what\n"), "no answer"),
        (FakeGuest(READY), "no answer"),
        (FakeGuest(READY, b"[]\n"), "not a JSON object"),
        (FakeGuest(READY, b'{"release":"6"}\n'), "invalid answer"),
        (FakeGuest(READY, json.dumps(ANSWER | {"missed": -1}).encode()), "invalid answer"),
        (FakeGuest(READY, json.dumps(ANSWER | {"loading": [1]}).encode()), "invalid answer"),
        (FakeGuest(READY, json.dumps(ANSWER | {"modules": {"m": {}}}).encode()), "invalid answer"),
    ],
)
def test_what_a_guest_sends_is_checked(guest, says):
    counting = session.CoverageSession(guest, ["core"])
    with pytest.raises(GuestError, match=says):
        counting.start(), counting.finish()


def test_names_that_ran_while_loading_have_an_owner():
    """Code that is freed after loading is the loading module's, the rest its own module's."""
    ran = {"core": {"core_init"}, "ib": {"ib_init", "register", "shared"}}
    known = {"core": {"register", "shared"}, "ib": {"shared"}}
    assert functions.owned(ran, known) == [
        ("core_init", "core"), ("ib_init", "ib"), ("register", "core"), ("shared", "ib"),
    ]  # fmt: skip


@pytest.fixture
def tracing(tmp_path, monkeypatch):
    monkeypatch.setattr(functions, "TRACING", tmp_path)
    return tmp_path


def test_functions_that_ftrace_can_trace(tracing):
    (tracing / "available_filter_functions").write_text("a [core]\nb [core]\nb\nc [ib]\n")
    known = {"core": [(48, "b"), (16, "a"), (32, "data"), (64, "c")], "ib": []}
    assert functions.traceable(known) == {"core": [(16, "a"), (48, "b")], "ib": []}


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ((0, "insmod /m/a/mlx5_core.ko \ninsmod /m/mlx5-ib.ko.xz x=1\n", ""), None),
        ((1, "", "modprobe: FATAL: Module no not found\nmore\n"), "Module no not found$"),
        ((0, "builtin mlx5_core\n", ""), "built into the kernel"),
    ],
)
def test_modules_load_in_their_order(monkeypatch, words, ends):
    done = subprocess.CompletedProcess([], *words)
    monkeypatch.setattr(modules, "run", lambda *_: done)
    if ends is None:
        assert modules.in_order(["mlx5_ib", "mlx5_core"]) == ["mlx5_core", "mlx5_ib"]
    else:
        with pytest.raises(modules.CoverageError, match=ends):
            modules.in_order(["mlx5_ib", "mlx5_core"])


@pytest.mark.parametrize(
    ("lost", "ends"), [("overrun: 0", None), ("overrun: 3", "lost events"), ("entries: 9", None)]
)
def test_a_trace_that_lost_events_is_refused(tracing, monkeypatch, lost, ends):
    (tracing / "per_cpu" / "cpu0").mkdir(parents=True)
    (tracing / "per_cpu" / "cpu0" / "stats").write_text(f"oldest event ts:  5.1\n{lost}\n")

    def modprobe(*_words):
        (tracing / "trace").write_text(
            "# tracer: function\n  modprobe-9 [001] ..... 5.1: core_init <-do_one_initcall\n"
        )
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(functions, "run", modprobe)
    if ends is None:
        assert functions.load("core") == {"core_init"}
        assert (tracing / "set_ftrace_filter").read_text() == ":mod:core\n"
    else:
        with pytest.raises(modules.CoverageError, match=ends):
            functions.load("core")

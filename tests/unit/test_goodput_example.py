"""examples/links/goodput.py: the plot, and what it reads out of perftest's table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "links" / "goodput.py"
SVG = "{http://www.w3.org/2000/svg}"
TABLE = """
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 8192       300              0.00               0.60                 0.000077
---------------------------------------------------------------------------------------
"""


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("goodput_example", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_curve_is_in_the_frame_and_in_the_legend(example):
    curves = {"adapter, 0ms": [102.0, 50.0, 0.0], "rxe, 0ms": [100.0, 1.0, 0.5]}
    picture = ElementTree.fromstring(example.plot((0, 1, 5), curves))
    _, _, width, height = map(int, picture.get("viewBox").split())
    lines = picture.findall(f"{SVG}polyline")
    assert len(lines) == 2
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        assert len(points) == 3
        assert all(0 < x < width and 0 < y < height for x, y in points)
        assert [y for _, y in points] == sorted(y for _, y in points)
    assert set(curves) <= {text.text for text in picture.findall(f"{SVG}text")}


@pytest.mark.parametrize(("status", "said", "percent"), [(0, TABLE, 50), (1, TABLE, 0), (0, "", 0)])
def test_goodput_is_in_percent_of_the_line(example, status, said, percent):
    ends = [
        SimpleNamespace(
            popen=lambda command: None,
            wait=lambda job, timeout: 0,
            run=lambda command, timeout: SimpleNamespace(
                status=status, stdout=said, check=lambda: None
            ),
        )
        for _ in range(2)
    ]
    assert example.goodput(ends, "mlx5_0", 1) == pytest.approx(percent, abs=1)

"""Plots a run's blocks over time as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 20, 50
_MAX_POINTS = 2000
_LINES = 4
_MINUTE = 60

Point = tuple[float, int]
"""Seconds since the run began, and the number of blocks that ran by then."""


def svg(points: Sequence[Point]) -> Iterator[str]:
    """Yield an SVG picture in chunks: blocks over minutes, drawn from at most some 2000 points.

    The picture is valid without points, too.
    """
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n'
    )
    last = max((seconds for seconds, _ in points), default=0.0) or 1.0
    counts = [count for _, count in points] or [0]
    low, high = min(counts), max(max(counts), min(counts) + 1)

    def across(seconds: float) -> float:
        return _LEFT + seconds / last * (_WIDTH - _LEFT - _RIGHT)

    def down(count: float) -> float:
        return _HEIGHT - _BOTTOM - (count - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    for at in range(_LINES + 1):
        count, seconds = low + (high - low) * at / _LINES, last * at / _LINES
        y, x = down(count), across(seconds)
        yield (
            f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{count:.0f}</text>'
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
            f"{seconds / _MINUTE:.1f}</text>\n"
        )
    step = max(1, len(points) // _MAX_POINTS)
    drawn = [*points[::step], *points[-1:]]
    path = " ".join(f"{across(seconds):.1f},{down(count):.1f}" for seconds, count in drawn)
    yield f'<polyline points="{path}" fill="none" stroke="#276" stroke-width="2"/>\n'
    yield (
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 10}" text-anchor="middle">minutes</text>'
        f'<text x="14" y="{_HEIGHT / 2}" text-anchor="middle"'
        f' transform="rotate(-90 14 {_HEIGHT / 2})">blocks that ran</text>\n</svg>\n'
    )

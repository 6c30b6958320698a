"""Draw the lateness of each action and the pings of the cron over time, as SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT = 900, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
#: Lower end of the axis; smaller values are drawn there.
_LEAST_MS = 1.0
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#444} .title{font-size:14px;fill:#111} .grid{stroke:#ddd} "
    ".ping{stroke:#c2570c;stroke-dasharray:4 3} .late{fill:#0b62c4;fill-opacity:.55}"
)


def plot(actions: Sequence[tuple[float, float]], pings: Sequence[float]) -> str:
    """Return the plot as an SVG document.

    Args:
        actions: Instant in seconds since 1970, and lateness in milliseconds.
        pings: Instants of the cron's pings.
    """
    first, last = min(at for at, _ in actions), max(at for at, _ in actions)
    decades = max(2, math.ceil(math.log10(max(late for _, late in actions))))

    def x(at: float) -> float:
        return _LEFT + (at - first) / (last - first or 1) * (_WIDTH - _LEFT - _RIGHT)

    def y(late: float) -> float:
        share = math.log10(max(late, _LEAST_MS)) / decades
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    drawn = [f'<text class="title" x="{_LEFT}" y="22">{len(actions):,} actions: start minus scheduled_at</text>']
    for power in range(decades + 1):
        at = y(10.0**power)
        drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        drawn.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10**power:,} ms</text>')
    drawn += [
        f'<text x="{x(first + seconds):.1f}" y="{_HEIGHT - 28}" text-anchor="middle">{seconds} s</text>'
        for seconds in range(0, int(last - first) + 1, 30)
    ]
    drawn += [
        f'<line class="ping" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        for at in pings
        if first <= at <= last
    ]
    drawn += [f'<circle class="late" cx="{x(at):.1f}" cy="{y(late):.1f}" r="2.5"/>' for at, late in actions]
    drawn.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}">dashed: pings of the cron, where the next tick takes over</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}"><style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(drawn)}</svg>\n"
    )

"""Print a fat tree of two levels for ``mlx5emu run --subnet``: leaves of 24 adapters, 12 spines.

python3 examples/subnet/fat-tree.py 42 > tree.net        # 1,008 adapters, 54 switches
"""

import sys

ADAPTERS, SPINES = 24, 12
leaves = int(sys.argv[1]) if len(sys.argv) > 1 else 42

lines = []
for leaf in range(leaves):
    lines.append(f'Switch {ADAPTERS + SPINES} "leaf{leaf}"')
    lines += [f'[{port}] "node{leaf * ADAPTERS + port}"[1]' for port in range(1, ADAPTERS + 1)]
    lines += [f'[{ADAPTERS + spine}] "spine{spine}"[{leaf + 1}]' for spine in range(1, SPINES + 1)]
lines += [f'Switch {leaves} "spine{spine}"' for spine in range(1, SPINES + 1)]
lines += [f'Hca 1 "node{node}"' for node in range(1, leaves * ADAPTERS + 1)]
sys.stdout.write("\n".join(lines) + "\n")

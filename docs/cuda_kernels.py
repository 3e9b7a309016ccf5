"""What NVIDIA's compiler makes of every scenario's step, and how fast a GPU could be at most: a table in the docs.

    python docs/cuda_kernels.py                           all scenarios; writes docs/benchmarks/physics.md
    python docs/cuda_kernels.py simple_spread transport   some; the lines of the others stay as they are

Needs neither a GPU nor a driver, but ``pip install "marlenv-torch[cuda]"``. All scenarios take an hour of a core.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from marlenv.scenarios.index import SCENARIOS

from marlenv.cli.benches.roofline import GPUS, roofline_of, source_of
from marlenv.physics.jit.cuda_kernel import Nvrtc
from marlenv.physics.jit.cuda_source import cuda_source

PAGE = Path(__file__).parent / "benchmarks" / "physics.md"
BEGIN, END = "<!-- cuda -->", "<!-- /cuda -->"
ARCHS = ("sm_80", "sm_90")
SMALLER = {"pollock": {"n_agents": 3, "n_lines": 2, "n_boxes": 2}, "road_traffic": {"n_agents": 3}}
"""Options of what is too large otherwise, as in the tests."""
HEAD = f"""\
| scenario | expressions | bytes: a step | in a rollout | operations | \
{" | ".join(f"{a}: registers | stack | spilled" for a in ARCHS)} \
| {" | ".join(f"{name}, at most" for name in GPUS)} | bound by |
|---|{"---:|" * (4 + 3 * len(ARCHS) + len(GPUS))}---|"""


class Code(NamedTuple):
    """What ptxas says of the kernel that plays steps."""

    registers: int
    stack: int
    """Bytes of local memory that a thread has."""
    spilled: int
    """Bytes that are stored there for want of registers, in the kernel and what it calls."""


def code_of(text: str, arch: str) -> Code:
    """What ptxas says of CUDA C++."""
    with tempfile.TemporaryDirectory() as folder:
        code, made = Path(folder, "step.cu"), Path(folder, "step.cubin")
        code.write_text(text)
        said = subprocess.run(Nvrtc(arch).command(code, made), capture_output=True, text=True, check=True).stdout
    used = re.search(r"entry function 'run'.*?Used (\d+) registers(?:[^\n]*?(\d+) bytes cumulative)?", said, re.S)
    functions = re.split(r"Function properties for ", said)[1:]
    spills = [re.search(r"(\d+) bytes spill stores", one) for one in functions if not one.startswith("begin")]
    registers, stack = used.groups(default="0") if used else ("0", "0")
    return Code(int(registers), int(stack), sum(int(found[1]) for found in spills if found))


def line_of(name: str) -> str:
    """The line of a scenario."""
    source = source_of(name, **SMALLER.get(name, {}))
    expressions, step, rollout = roofline_of(source)
    text = cuda_source(source)
    codes = [code_of(text, arch) for arch in ARCHS]
    numbers = [f"{x:,}" for x in (expressions, step.bytes, rollout.bytes, rollout.operations)]
    numbers += [f"{x:,}" for code in codes for x in code]
    numbers += [f"{rollout.rate(gpu) / 1e6:,.0f}" for gpu in GPUS]
    bound = dict.fromkeys(rollout.bound(gpu) for gpu in GPUS)
    return f"| {' | '.join((name, *numbers, ', '.join(bound)))} |"


def main(names: Sequence[str]) -> None:
    """Writes the lines of some scenarios, or of all, into the page."""
    known = [entry.name for entry in SCENARIOS]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    block, _, after = rest.partition(END)
    lines = {name: line for line in block.splitlines() if (name := line.split(" | ")[0][2:]) in known}
    for name in names or known:
        lines[name] = line_of(name)
        print(lines[name], flush=True)
    PAGE.write_text("\n".join((before + BEGIN, HEAD, *(lines[name] for name in sorted(lines)), END)) + after)


if __name__ == "__main__":
    main(sys.argv[1:])

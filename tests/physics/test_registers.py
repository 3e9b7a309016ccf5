"""Machine code for registers of 64 bytes, looked at on any machine of the kind: compilers have got masks wrong."""

import platform
import re
import subprocess

import pytest
from marlenv.scenarios.joint_passage_size import JointPassageSize

from marlenv.physics import Simulation
from marlenv.physics.jit import cache
from marlenv.physics.jit.source import Source

STORED = re.compile(r"\t(kmovb|kmovw|mov\w+|vmov\w+)\t\S+, (-?\d*\(%r\w+\))$")
READ = re.compile(r"\t(kmovw|kmovd|kmovq|movzwl|movw|movl|movq)\t(-?\d*\(%r\w+\)), ")
BYTES = {"kmovb": 1, "kmovw": 2, "movzwl": 2, "movw": 2, "kmovd": 4, "movl": 4, "kmovq": 8, "movq": 8}


def too_wide(assembly):
    """Reads of more bytes of a mask than were stored last, within one function."""
    stored, found = {}, []
    for line in assembly.splitlines():
        if line.endswith(":") and not line.startswith(".L"):
            stored = {}
        if into := STORED.match(line):
            stored[into[2]] = into[1]
        elif out := READ.match(line):
            mask = stored.get(out[2], "")
            if mask.startswith("kmov") and BYTES[out[1]] > BYTES[mask]:
                found.append(line.strip())
    return found


def test_reads_that_are_too_wide_are_found():
    wrong = "reset:\n\tkmovb\t%k6, -304(%rbp)\n\tmovzwl\t-304(%rbp), %r10d\n"
    assert too_wide(wrong) == ["movzwl\t-304(%rbp), %r10d"]
    assert too_wide(wrong.replace("kmovb", "kmovw")) == []


@pytest.mark.slow  # seconds of compiling
@pytest.mark.skipif(platform.machine() != "x86_64" or cache.compiler() is None, reason="needs a compiler for x86-64")
def test_no_mask_is_read_wider_than_it_was_stored(tmp_path):
    """The bricks of this task are sorted by 190 comparisons, whose masks do not fit into the registers for masks."""
    code, assembly = tmp_path / "code.cpp", tmp_path / "code.s"
    code.write_text(Source(Simulation(JointPassageSize())).text)
    options = [o for o in cache.OPTIONS if o not in ("-march=native", "-shared")]
    command = [cache.compiler()[0], *options, "-march=x86-64-v4", "-S", str(code), "-o", str(assembly)]
    subprocess.run(command, check=True)
    text = assembly.read_text()
    assert text.count("kunpckbw") > 100
    assert too_wide(text) == []

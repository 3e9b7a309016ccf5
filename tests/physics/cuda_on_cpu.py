"""A stand-in for the few functions of cuda-core that launch kernels, on machines without a GPU.

The cubin is what NVRTC made; what runs is the same CUDA C++, taken by the compiler for CPUs through a shim of a
thread's built-ins. Every launch is checked: the stream, the kernel, the grid, and that every argument is the number of
rows or the address of a tensor of the parameter's type, with room for all rows.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import struct
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from marlenv.physics.jit import cache, cuda_kernel
from marlenv.physics.jit.cuda_source import THREADS, cuda_source

FLAGS = ("terminated", "truncated", "done")
STREAM = 0x5EED0  # torch's current stream
CPU = torch.device("cpu")
SHIM = """
struct Dim { unsigned x, y, z; };
static thread_local Dim blockIdx, blockDim, threadIdx;
#define __global__
#define __launch_bounds__(n)
"""
LAUNCH = """
#include <utility>
template <class... A, size_t... K>
static void grid(unsigned blocks, unsigned threads, void (*f)(A...), void **p, std::index_sequence<K...>) {
  blockDim = {threads, 1, 1};
  for (unsigned b = 0; b < blocks; b++) for (unsigned t = 0; t < threads; t++) {
    blockIdx = {b, 0, 0};
    threadIdx = {t, 0, 0};
    f(*(A *)p[K]...);
  }
}
template <class... A> static void launched(unsigned blocks, unsigned threads, void (*f)(A...), void **p) {
  grid(blocks, threads, f, p, std::index_sequence_for<A...>());
}
#define LAUNCH(f) \\
  extern "C" void launch_##f(unsigned blocks, unsigned threads, void **p) { launched(blocks, threads, f, p); }
LAUNCH(run) LAUNCH(begin)
"""
TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int64: "int64_t",
    torch.bool: "uint8_t",
    torch.uint8: "uint8_t",
}


@dataclass
class Parameter:
    """What a kernel says of one of its parameters.

    Args:
        name: what it is called.
        type: of its numbers.
        place: whether it is where numbers are, and not a number.
        numbers: how many a row has, of each step if there are many.
    """

    name: str
    type: str
    place: bool
    numbers: int

    def may_be_missing(self, given: dict[str, int]) -> bool:
        """Whether a kernel does without, given its numbers."""
        unread = self.name.startswith("before") and given["start"] == given["last"]
        unwanted = self.name.startswith("out") and "stop" in given
        return self.numbers == 0 or self.name in ("where", "keys") or unread or unwanted

    def room(self, given: dict[str, int]) -> tuple[int, bool]:
        """How many numbers there must be, and whether there may be more: of steps that others play."""
        rows, stop = given["rows"], given.get("stop")
        if stop is None or self.name.startswith("st") or self.name == "keys":
            return rows * self.numbers, False
        if self.name == "ended":
            return stop, True
        steps = 1 + min(stop, given["last"]) if self.name.startswith("before") else stop
        return rows * self.numbers * steps, True


class Kernel:
    """A kernel of a source."""

    def __init__(self, text: str, name: str, library: ctypes.CDLL) -> None:
        self.name, self.run = name, getattr(library, f"launch_{name}")
        (said,) = re.findall(rf"^KERNEL {name}\(([^{{]*)\) {{", text, re.M)
        lists = dict(re.findall(r"^#define (\w+)(?:\(DO\))? (.*)$", text, re.M))
        said = re.sub(r"(\w+)_PARAMETERS", lambda found: lists.get(found[0], "").strip(), said)
        sizes: dict[str, int] = {}
        for one in ("STATE", "ACTS", "OUTS", "SEEN"):
            for numbers, parameter in re.findall(r"DO\(\w, (\d+), \d+, (\w+)\)", lists.get(one, "")):
                sizes[parameter] = int(numbers)
        self.parameters = []
        for one in said.split(","):
            kind, star, parameter = re.fullmatch(r"\s*(?:const )?(\w+) ?(\*?)(\w+)\s*", one).groups()
            self.parameters.append(Parameter(parameter, kind, bool(star), sizes.get(parameter, 1)))


def dense(x: torch.Tensor) -> bool:
    """Whether the rows, the first or the last dimension, are last in memory."""
    return x.is_contiguous() or x.movedim(0, -1).is_contiguous()


def code_of(text: str, cubin: bytes) -> SimpleNamespace:
    """What `ObjectCode.from_cubin` gives."""
    assert cubin[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", cubin, 18)[0] == 190  # EM_CUDA
    ways = (r"\*\([LD] \*\)\(?s?t? \+ (\d+)", r"take[ld]\(st? \+ (\d+)", r"DO\([LD], \d+, (\d+),")
    places = [place for way in ways for place in re.findall(way, text)]
    assert not [place for place in places if int(place) % 2], "eight bytes where a GPU reads no eight bytes"
    library = ctypes.CDLL(str(cache.build(SHIM + text + LAUNCH)[0]))

    def get_kernel(name: str) -> Kernel:
        assert f".text.{name}".encode() in cubin
        return Kernel(text, name, library)

    return SimpleNamespace(get_kernel=get_kernel)


class LaunchConfig:
    """As cuda-core's, of which only these two are used."""

    def __init__(self, grid: int, block: int) -> None:
        assert type(grid) is int
        assert type(block) is int
        self.grid, self.block = grid, block


class Stream:
    """As cuda-core's."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    @classmethod
    def from_handle(cls, handle: int) -> Stream:
        return cls(handle)


class Core:
    """A stand-in for the module `cuda.core`.

    Args:
        texts: the CUDA C++ of the kernels that are made, the last one being the next to be loaded.

    """

    LaunchConfig, Stream = LaunchConfig, Stream
    current = False  # whether this thread's work goes to the GPU

    def __init__(self, texts: list[str]) -> None:
        self.ObjectCode = SimpleNamespace(from_cubin=lambda cubin: code_of(texts[-1], cubin))
        self.launches: list[str] = []
        self.asked: dict[int, list[torch.Tensor]] = {}
        """The tensors whose addresses were asked for, by address; they live on, so that each keeps its own."""

    def Device(self, index: int | None) -> SimpleNamespace:
        """A GPU that can be made the current one."""
        assert index == CPU.index
        return SimpleNamespace(set_current=lambda: setattr(self, "current", True))

    def launch(self, stream: Stream, config: LaunchConfig, kernel: Kernel, *arguments: int) -> None:
        """Checks what it is given, and runs the kernel on the CPU."""
        assert self.current
        assert stream.handle == STREAM
        assert len(arguments) == len(kernel.parameters)
        assert all(type(x) is int for x in arguments)
        pairs = list(zip(kernel.parameters, arguments, strict=True))
        given = {parameter.name: x for parameter, x in pairs if not parameter.place}
        assert config.block == THREADS
        assert config.grid * THREADS >= given["rows"] > (config.grid - 1) * THREADS
        assert all(parameter.type == "int64_t" for parameter, _ in pairs if not parameter.place)
        for parameter, place in pairs:
            if not parameter.place:
                continue
            if place == 0:
                assert parameter.may_be_missing(given), (kernel.name, parameter)
                continue
            least, more = parameter.room(given)
            there = [x for x in self.asked.get(place, ()) if TYPES[x.dtype] == parameter.type and dense(x)]
            fits = any(x.numel() == least or (more and x.numel() > least) for x in there)
            assert fits or (parameter.name in FLAGS and self.among_flags(place, least)), (kernel.name, parameter)
        numbers = [ctypes.c_int64(x) for x in arguments]
        kernel.run(config.grid, config.block, (ctypes.c_void_p * len(numbers))(*map(ctypes.addressof, numbers)))
        self.launches.append(kernel.name)
        self.current = False

    def among_flags(self, place: int, numbers: int) -> bool:
        """Whether there is room for so many flags from an address on, within a tensor of flags."""
        flags = [x for x in itertools.chain(*self.asked.values()) if x.dtype == torch.bool and dense(x)]
        return any(0 <= place - x.untyped_storage().data_ptr() <= x.numel() - numbers for x in flags)


def stand_in(patch: pytest.MonkeyPatch, arch: tuple[int, int] = (9, 0)) -> Core:
    """Puts the stand-in where machine code for GPUs looks for cuda-core and for torch's GPU."""
    texts: list[str] = []

    def noted(source):
        texts.append(cuda_source(source))
        return texts[-1]

    core, real, address = Core(texts), cuda_kernel.need, torch.Tensor.data_ptr

    def data_ptr(x):
        core.asked.setdefault(address(x), []).append(x)
        return address(x)

    patch.setattr(torch.Tensor, "data_ptr", data_ptr)
    patch.setattr(cuda_kernel, "cuda_source", noted)
    patch.setattr(cuda_kernel, "need", lambda module, who: core if module == "cuda.core" else real(module, who))
    patch.setattr(torch.cuda, "get_device_capability", lambda device: arch)
    patch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=STREAM))
    patch.setattr(torch.cuda, "device", torch.device)  # a context like it
    return core

"""A simulation as machine code for a GPU: transitions, resets and whole rollouts of any number of rows, a thread each.

Compiled by NVRTC and launched by NVIDIA's cuda-core, on PyTorch's memory and PyTorch's stream. On an H200 its rollouts
are those of the CPU's machine code bit for bit (``tests/physics/test_gpu_kernels.py``). Where there is no GPU, it is
shown that NVRTC compiles it, that the same source computes what separate operations compute where a compiler for CPUs
takes it, and that the launches have the arguments that the kernels take.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marlenv.optional import has, need
from marlenv.physics.jit import cache, nvrtc
from marlenv.physics.jit.cuda_source import THREADS, cuda_source
from marlenv.physics.jit.kernel import Act, MachineKernel, Room, Steps, Turn, Turned
from marlenv.physics.jit.source import Source
from marlenv.physics.laws.state import State


def installed() -> bool:
    """Whether cuda-core is; it is not imported."""
    return has("cuda") and find_spec("cuda.core") is not None


class Nvrtc(cache.Compiler):
    """What makes a cubin of CUDA C++.

    Args:
        arch: the GPU's, as ``"sm_90"``.

    """

    source, library = "cu", "cubin"

    def __init__(self, arch: str) -> None:
        self.arch = arch

    def changes(self) -> tuple[str, ...]:
        """Everything but the source that changes a cubin."""
        version = need("cuda.bindings.nvrtc", "machine code for GPUs").nvrtcVersion()
        return (repr(nvrtc.OPTIONS), self.arch, str(version))

    def command(self, code: Path, made: Path) -> list[str]:
        """What makes the cubin ``made`` of the source ``code``."""
        return [sys.executable, "-P", nvrtc.__file__, str(code), str(made), self.arch]


class CudaKernel(MachineKernel):
    """Machine code of a simulation for a GPU; made once, used for any number of rows.

    Args:
        source: of the code.
        device: the GPU.
        patience: seconds to wait for the compiler; left out, until it is done.

    Raises:
        Unsupported: there is no cubin of it, and none can be had.

    """

    by_rows = False  # neighbouring threads write side by side

    def __init__(self, source: Source, device: torch.device, patience: float | None = None) -> None:
        super().__init__(source)
        self.device = device
        self._core = need("cuda.core", "machine code for GPUs")
        arch = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
        path, self.compiled = cache.build(cuda_source(source), patience, Nvrtc(arch))
        self.name = path.name
        with torch.cuda.device(device):
            self._core.Device(device.index).set_current()
            code = self._core.ObjectCode.from_cubin(path.read_bytes())
            self._run, self._begin = code.get_kernel("run"), code.get_kernel("begin")
        self._stream = lru_cache(self._core.Stream.from_handle)
        self._grid = lru_cache(lambda blocks: self._core.LaunchConfig(grid=blocks, block=THREADS))

    def _places(self, tensors: Sequence[Tensor | None]) -> Any:
        return [0 if x is None else x.data_ptr() for x in tensors]

    def _play(self, rows: int, places: Any, ended: Tensor, steps: Steps) -> None:
        self._launch(self._run, rows, *map(int, steps), *places, ended.data_ptr())

    def step(self, rows: int, places: Any, ended: Tensor, most: int | None = None, *, looks: bool = False) -> bool:
        """As :meth:`MachineKernel.step`; it cannot look."""
        self.run(rows, places, ended, most=most)
        return True

    def acting(self, state: State, room: Room, *, last: int, most: int | None, restart: bool) -> Act:
        """As :meth:`MachineKernel.acting`; all observations are written. Nothing looks at actions, nor waits."""
        rows, steps = len(state["over"]), len(room.shown[0])
        acts = [field.empty(rows, steps, room.ended.device) for field in self.actions]
        places = self.bind(state, acts, *room[:3])

        def played(step: int, actions: Sequence[Tensor]) -> bool:
            for mine, x in zip(acts, actions, strict=True):
                mine[step].copy_(x.reshape(rows, *mine.shape[1:-1]).movedim(0, -1))
            self.run(rows, places, room.ended, step, step + 1, last=last, most=most, restart=restart)
            if step < last:
                for mine, x in zip(room.shown, room.observations, strict=True):
                    mine[step].copy_(x[step + 1])
            return True

        return played

    def turning(self, entries: Sequence[Turned]) -> Turn:
        """As :meth:`MachineKernel.turning`; nothing looks whether rows ended."""

        def turned(start: int, stop: int, shown: Sequence[Tensor | None], ended: Sequence[int]) -> None:
            for (x, out, before), seen in zip(entries, shown, strict=True):
                both = [(seen if x is None else x, out[start:stop])]
                both += [] if before is None else [(seen, before[start + 1 : stop + 1])]
                for steps, whole in both:
                    whole.copy_(steps[: len(whole)])  # type: ignore[index]

        return turned

    def begin(self, state: State, where: Tensor | None, observations: Sequence[Tensor]) -> None:
        """New episodes in the rows ``where`` (bool ``[B]``, contiguous); writes into ``state`` and ``observations``."""
        self._launch(self._begin, len(state["over"]), *self._places((where, *self._of(state), *observations)))

    def _launch(self, kernel: Any, rows: int, *arguments: int) -> None:
        """Has a kernel work on all rows, after what PyTorch's current stream was given before.

        Args:
            kernel: of the cubin.
            rows: how many; its first argument.
            arguments: the others, numbers and where data are.

        """
        with torch.cuda.device(self.device):
            self._core.Device(self.device.index).set_current()  # this thread may be new to it
            stream = self._stream(torch.cuda.current_stream(self.device).cuda_stream)
            self._core.launch(stream, self._grid(-(-rows // THREADS)), kernel, rows, *arguments)


__all__ = ["CudaKernel", "Nvrtc", "installed"]

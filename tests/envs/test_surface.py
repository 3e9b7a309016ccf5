"""What TorchRL's documents of the environment layer name, marlenv has, with the same keywords and defaults."""

from __future__ import annotations

import pytest
from surface import Fault, call_faults, faults, idle_rows, member_faults, reason
from surface_table import EXPLAINED, LATER

import marlenv

pytestmark = pytest.mark.reference


@pytest.mark.slow
def test_every_difference_is_explained() -> None:
    unexplained = [f"{fault.what}: {fault.how}" for fault in faults() if reason(fault) is None]
    assert not unexplained, "\n".join(unexplained)


@pytest.mark.slow
def test_every_lasting_reason_explains_something() -> None:
    idle = [pattern for pattern in idle_rows() if not EXPLAINED[pattern].startswith(LATER)]
    assert not idle, idle


def test_planted_faults_are_found() -> None:
    class Theirs:
        def gone(self) -> None: ...

        def call(self, kept: int = 1, lost: int = 2, other: int = 3) -> None: ...

        def asked(self) -> int: ...

        @property
        def read(self) -> int: ...

    class Ours:
        asked = property(lambda self: 1)

        def read(self) -> int: ...

        def call(self, kept: int = 1, other: int = 4) -> None: ...

    found = {(f.what, f.how) for f in member_faults("Env", Theirs, Ours)}
    assert found == {
        ("Env.gone", "absent"),
        ("Env.asked", "called in torchrl, not in ours"),
        ("Env.read", "read in torchrl, called in ours"),
        ("Env.call(lost)", "absent"),
        ("Env.call(other)", "default 4, torchrl's 3"),
        ("Env.call(other)", "argument 3 of torchrl's: not by position"),
    }
    assert list(call_faults("f", lambda x=None: x, lambda x=None: x)) == []
    assert [f.what for f in call_faults("f", lambda x, y, z=1: x, lambda x, *, y, z=1: x)] == ["f(y)", "f(z)"]
    assert [f.what for f in call_faults("f", lambda x, y: x, lambda y, x: x)] == ["f(x)", "f(y)"]
    assert list(call_faults("f", lambda x, y: x, lambda *xs, y: xs)) == [Fault("f(x)", "absent")]
    assert reason(Fault("EnvBase.rollout(max_steps)", "absent")) is None
    assert reason(Fault("VmasEnv", "absent")) is None
    assert marlenv.EnvBase

"""``marlenv bench interop`` times every adapter beside the raw env, with the same number of steps."""

from __future__ import annotations

from typing import Any

import pytest

from marlenv.cli.__main__ import main
from marlenv.cli.benches import interop
from marlenv.errors import MissingExtra


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop, "STEPS", 60)  # beyond the end of an episode


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_line_for_every_adapter_that_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "interop", "--rounds", "1"]) in (0, None)
    said = capsys.readouterr()
    for what in interop.CASES:
        assert what in said.out or f"{what} is left out: " in said.err
    for what in ("to_gymnasium_vector", "to_pettingzoo_aec", "to_pymarl", "to_alf"):
        assert what in said.out
    assert "(raw)" in said.out


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(env: object) -> None:
        raise MissingExtra("it needs something")

    monkeypatch.setattr(interop, "CASES", {"to_nothing": (lambda: interop.scenario(1), missing)})
    assert interop.measure(1) == []
    assert "to_nothing is left out: it needs something" in capsys.readouterr().err


@pytest.mark.slow
def test_both_sides_play_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is checked against separate operations when it is made, in the turn that is not timed."""
    from marlenv.physics.jit.tiers import Compiled

    made: list[Any] = []
    real = interop.make

    def make(*given: Any, **options: Any) -> Any:
        made.append(real(*given, **options))
        return made[-1]

    monkeypatch.setattr(interop, "make", make)
    monkeypatch.setattr(
        interop, "interleaved", lambda sides, rounds: {name: float(one()) for name, one in sides.items()}
    )
    figures = interop.measure(1, only="to_gymnasium_vector")
    assert [(figure.ours, figure.peer) for figure in figures] == [(60.0, 60.0)]
    assert [type(env.engine) for env in made] == [Compiled, Compiled]

"""``Places``: which agent of ours an agent of Unity's is, episode by episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from marlenv.wrappers.unity_mlagents.steps import Place, word_of


class Bench(NamedTuple):
    """The places of one multi-agent group of a behaviour."""

    behaviour: str
    group: int | None
    """The id that the group had at first, 0 for agents without one; None where nobody was there."""
    names: list[str]


class Places:
    """The agents of all behaviours, and who of Unity's has which place in this episode.

    Unity gives agents, and may give multi-agent groups, new ids in every episode. A group has the places of its id; a
    new id has the first ones that no other group of its behaviour has in this episode, smaller ids first.

    Args:
        seen: behaviour -> group id -> how many agents were there at first.
        size: places in every group, and in a behaviour of which nobody was there; as many as were there when None.

    >>> places = Places({"Goalie": {0: 1}, "Striker": {1: 2, 2: 2}}, None)
    >>> places.names("Striker")
    ['Striker_group_1_0', 'Striker_group_1_1', 'Striker_group_2_0', 'Striker_group_2_1']
    >>> places.of(70, ("Striker", 6)), places.of(71, ("Striker", 9)), places.of(72, ("Striker", 6))
    ('Striker_group_1_0', 'Striker_group_2_0', 'Striker_group_1_1')
    """

    def __init__(self, seen: Mapping[str, Mapping[int, int]], size: int | None) -> None:
        self._benches: list[Bench] = []
        words: set[str] = set()
        for behaviour, groups in seen.items():
            several = {behaviour} if len(groups) > 1 else set()
            known: list[tuple[int | None, int]] = [*sorted(groups.items())] or ([(None, 0)] if size else [])
            for group, count in known:
                plain = word = word_of((behaviour, group or 0), several)
                again = 2
                while word in words:  # "A?b" and "A_b" are one word
                    word, again = f"{plain}_again_{again}", again + 1
                words.add(word)
                names = [f"{word}_{i}" for i in range(size or count)]
                self._benches.append(Bench(behaviour, group, names))
        self.open()

    def names(self, behaviour: str) -> list[str]:
        """The agents of a behaviour."""
        return [name for bench in self._benches if bench.behaviour == behaviour for name in bench.names]

    def open(self) -> None:
        """A new episode: nobody has a place yet."""
        self._groups: dict[Place, Bench | None] = {}
        self._ids: dict[int, str] = {}
        self.left_out: set[int] = set()
        """Unity's ids of agents without a place."""

    def meet(self, behaviour: str, groups: set[int]) -> None:
        """Gives places to groups that are new in this episode."""
        for group in sorted(groups):
            if (behaviour, group) not in self._groups:
                held = [bench for bench in self._groups.values() if bench is not None]
                free = [one for one in self._benches if one.behaviour == behaviour and one not in held]
                own = [bench for bench in free if bench.group == group]
                alike = [one for one in free if one.group is None or (one.group == 0) is (group == 0)]
                self._groups[behaviour, group] = next(iter(own + alike), None)

    def of(self, one: int, place: Place) -> str | None:
        """The agent of an id; a new id takes a place that nobody had, None if there is none."""
        if one not in self._ids and one not in self.left_out:
            behaviour, group = place
            self.meet(behaviour, {group})
            bench = self._groups[place]
            taken = set(self._ids.values())
            free = next((name for name in (bench.names if bench else ()) if name not in taken), None)
            if free is None:
                self.left_out.add(one)
            else:
                self._ids[one] = free
        return self._ids.get(one)

    def known(self, one: int) -> str | None:
        """The agent of an id that was met."""
        return self._ids.get(one)

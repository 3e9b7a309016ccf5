"""Data sets of OpenML as bandits, through scikit-learn (https://www.openml.org, tested with scikit-learn 1.9.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.envs.seeding import fresh_seed
from marlenv.errors import KeyMissing, UnknownName, nearest
from marlenv.optional import has, need
from marlenv.rng import RowRNG
from marlenv.specs import Binary, Categorical, Composite, Unbounded
from marlenv.tensordicts import get, new, rows
from marlenv.wrappers._attributes import ClassValue
from marlenv.wrappers._rows import rows_of


class DataSet(NamedTuple):
    """How OpenML calls a data set, and what is made of it."""

    name: str
    version: int = 1
    target: str | None = None
    """The column to be guessed; OpenML's own when None."""
    one_hot: bool = False
    """Whether words become one-hot vectors, rather than numbers."""


DATA_SETS = {
    "adult_num": DataSet("adult", target="occupation"),
    "adult_onehot": DataSet("adult", target="occupation", one_hot=True),
    "mushroom_num": DataSet("mushroom"),
    "mushroom_onehot": DataSet("mushroom", one_hot=True),
    "covertype": DataSet("covertype", version=3),
    "shuttle": DataSet("shuttle"),
    "magic": DataSet("MagicTelescope"),
}


class OpenMLEnv(EnvBase):
    """Guess the class of a sample: a contextual bandit over a data set of OpenML. Every episode has one step.

    | key | shape | meaning |
    |---|---|---|
    | `observation` | float32 `[*B, n]` | a sample: numbers with mean 0 and variance 1, words as numbers or one-hot |
    | `y` | int64 `[*B]` | its class |
    | `action` | int64 `[*B]` | the guess |
    | `reward` | float32 `[*B, 1]` | 1 if it is right |
    | `done`, `terminated` | bool `[*B, 1]` | after every step |

    Every row draws its samples from a stream of its own. Not run against the server: the tests read a folder like the
    one that scikit-learn keeps what it has fetched in.

    Args:
        dataset_name: ``"adult_num"``, ``"adult_onehot"``, ``"mushroom_num"``, ``"mushroom_onehot"``, ``"covertype"``,
            ``"shuttle"`` or ``"magic"``.
        device: where the data live.
        batch_size: how many samples are guessed at once.
        data_home: the folder that data sets are fetched to; scikit-learn's own when left out, ``$SCIKIT_LEARN_DATA``
            or ``~/scikit_learn_data``.

    Raises:
        UnknownName: there is no such data set; names the nearest.
        MissingExtra: scikit-learn is not installed.

    >>> OpenMLEnv.libname  # OpenMLEnv("mushroom_onehot", batch_size=[32])
    'openml'

    Source: torchrl 0.14.1 ``OpenMLEnv``.
    """

    libname: ClassVar[str] = "openml"
    git_url: ClassVar[str] = "https://github.com/scikit-learn/scikit-learn"

    @ClassValue
    def available_envs(cls) -> list[str]:  # noqa: N805
        """The names of the data sets; none where scikit-learn is not installed."""
        return list(DATA_SETS) if has("sklearn") else []

    def __init__(
        self,
        dataset_name: str,
        device: torch.device | str | int | None = "cpu",
        batch_size: Sequence[int] | int | None = None,
        *,
        data_home: str | Path | None = None,
    ) -> None:
        who = type(self).__name__
        if dataset_name not in DATA_SETS:
            raise UnknownName(f"{who}: there is no data set {dataset_name!r}; {nearest(dataset_name, list(DATA_SETS))}")
        super().__init__(device=device, batch_size=rows_of(who, batch_size) or ())
        self.dataset_name = dataset_name
        x, y = load(who, DATA_SETS[dataset_name], data_home)
        self._x, self._y = torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)
        batch = self.batch_size
        seen = Unbounded((*batch, x.shape[1]), device=self.device)
        classes = Categorical(int(y.max()) + 1, batch, device=self.device)
        self.observation_spec = Composite(observation=seen, y=classes, shape=batch, device=self.device)
        self.action_spec, self.reward_spec = classes.clone(), Unbounded((*batch, 1), device=self.device)
        flag = Binary(shape=(*batch, 1), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=flag, terminated=flag.clone(), shape=batch, device=self.device)
        self._set_seed(None)

    def _set_seed(self, seed: int | None) -> None:
        self._samples = RowRNG(fresh_seed() if seed is None else seed, self.batch_size, self.device).state

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        rng = RowRNG.from_state(self._samples)
        drawn = rng.randint(0, len(self._y))
        mask = None if tensordict is None else get(tensordict, "_reset")
        moved = rng.state
        if mask is not None:  # rows that go on draw nothing
            moved = torch.where(rows(mask, len(self.batch_size)).unsqueeze(-1), moved, self._samples)
        self._samples = moved
        return new({"observation": self._x[drawn], "y": self._y[drawn]}, self.batch_size, self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        y = get(tensordict, "y")
        if y is None:
            raise KeyMissing(f"{type(self).__name__}.step: no entry 'y'; step on from what reset() gave")
        right = (get(tensordict, "action") == y).unsqueeze(-1)
        data = {"observation": get(tensordict, "observation").clone(), "y": y.clone(), "reward": right.float()}
        done = torch.ones_like(right)
        return new({**data, "done": done, "terminated": done.clone()}, self.batch_size, self.device)


def load(who: str, data_set: DataSet, data_home: str | Path | None) -> tuple[Any, Any]:
    """The samples, float32 ``[N, n]``, and their classes, int64 ``[N]``, of a data set."""
    datasets, encoders = need("sklearn.datasets", who), need("sklearn.preprocessing", who)
    home = None if data_home is None else str(data_home)
    try:
        frame, y = datasets.fetch_openml(
            data_set.name, version=data_set.version, return_X_y=True, as_frame=True, data_home=home
        )
    except OSError as error:
        place = "scikit-learn's folder" if home is None else repr(home)
        error.add_note(f"{who}: data set {data_set.name!r} is not in {place}, and could not be fetched from OpenML")
        raise
    if data_set.target is not None:
        whole = frame.dropna()
        frame, y = whole.drop(columns=data_set.target), whole[data_set.target]
    words = frame.select_dtypes(exclude="number").columns
    numbers = encoders.StandardScaler()
    if data_set.one_hot:
        others = frame.drop(columns=words)
        parts = [numbers.fit_transform(others)] if others.shape[1] else []
        x = np.concatenate([*parts, encoders.OneHotEncoder(sparse_output=False).fit_transform(frame[words])], axis=1)
    else:
        if len(words):
            coded = encoders.OrdinalEncoder().fit_transform(frame[words])
            frame = frame.assign(**{name: coded[:, i] for i, name in enumerate(words)})
        x = numbers.fit_transform(frame)
    classes = encoders.LabelEncoder().fit_transform(y)
    return np.asarray(x, dtype=np.float32), np.asarray(classes, dtype=np.int64)

"""An env seen through transforms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE, assign
from marlenv.envs.attributes import names, owns
from marlenv.envs.autoreset import AutoReset
from marlenv.envs.random_actions import drawing_from
from marlenv.envs.resetting import check_reset_options
from marlenv.envs.rollout import RolloutOptions
from marlenv.envs.stepping import STEP, finish, standing, under_transforms
from marlenv.errors import SpecError, Unsupported
from marlenv.keys import NestedKey, beside, last, nested
from marlenv.specs import Composite, Stacked
from marlenv.tensordicts import choose, fetch, get, new, put, rows, shallow, unite
from marlenv.transforms.base import Transform
from marlenv.transforms.compose import Compose, as_transform, returned
from marlenv.transforms.names import untaken

ROWS = "transforms_rows"  # where get_state keeps what they know of rows themselves
BELOW = "below"  # and what those under a vector of envs know
MEMORY = "transforms"  # where get_state keeps what transforms remember


class TransformedEnv(EnvBase):
    """An env whose data go through transforms.

    Args:
        base_env: the env.
        transform: a transform, a chain, or a function of tensordicts; nothing when left out.
        cache_specs: derive the specs once; else at every look, for transforms that change their specs later.
        auto_unwrap: a transformed env is unwrapped: its transforms come first in this one. Else it stays as it is.
        device: moves ``base_env`` there first.
        **options: of :class:`marlenv.EnvBase`.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(max_steps=3), RewardSum())
    >>> env.rollout(5)["next", "episode_reward"].squeeze(-1)
    tensor([1., 2., 3.])
    """

    base_env: EnvBase
    """The env under the transforms."""
    chain: Compose
    """The transforms, first to last."""
    below_resets_itself: AutoReset | None
    """What becomes of the data of the env's own resets, where a transform says that it resets itself."""

    def __init__(
        self,
        base_env: EnvBase,
        transform: Any = None,
        cache_specs: bool = True,
        *,
        auto_unwrap: bool = True,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None:
        env = base_env
        if not isinstance(env, EnvBase):
            raise SpecError(f"TransformedEnv: expected an env, got {type(env).__name__}; make it first")
        if device is not None:
            env = env.to(device)
        given = [] if transform is None else [as_transform(transform)]
        for one in given:
            if one.container is not None:
                raise SpecError(f"TransformedEnv: {one!r} belongs to an env already; pass its copy, transform.clone()")
        inner = []
        if isinstance(env, TransformedEnv) and auto_unwrap:
            inner, env = [leaf.clone() for leaf in env.chain.leaves()], env.base_env
        super().__init__(device=env.device, batch_size=env.batch_size, **{"allow_done_after_reset": True, **options})
        self.batch_locked = env.batch_locked
        self.handles_partial_steps = env.handles_partial_steps
        self.resets_without_looking = env.resets_without_looking
        self.supports_set_state = env.supports_set_state
        self.starts_again = env.starts_again
        self.base_env = env
        self._rows: list[Size] = []  # the batch that every transform is given
        self._told: dict[Transform, TensorDictBase] = {}  # in a step: what those that ask for it were told
        self._aside: dict[NestedKey, NestedKey] = {}  # what the env below remembers: its key, and where it is kept
        self._truncates = False  # whether truncated flags were added to those of the env below
        self._all_of_it = True  # whether that, and what is overwritten, follows from our own transforms
        self.chain = given[0] if given and not inner and isinstance(given[0], Compose) else Compose(*inner, *given)
        self.chain.set_container(self)
        self._alone = bool(given) and self.chain is not given[0] and not inner
        self._rebuild()
        self.cache_specs = cache_specs
        self.register_load_state_dict_post_hook(_follow)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "transform":  # nn.Module would take it for one more part
            self._replace(as_transform(value))
        elif name in self.__dict__ or owns(self, name) or name not in self._names_below():
            super().__setattr__(name, value)
        else:  # where it is read
            setattr(self.base_env, name, value)

    def _names_below(self) -> frozenset[str]:
        return names(self.base_env) if self._finished else frozenset()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.chain.set_container(self)
        for leaf in self.chain.leaves():
            leaf.go_on_in(self)

    # --- the chain -------------------------------------------------------------------------------

    @property
    def transform(self) -> Transform:
        """The transform, where one alone was given; else the chain. Assigning another replaces all of them."""
        only: Transform = self.chain[0] if self._alone and len(self.chain) == 1 else self.chain
        return only

    def _replace(self, transform: Transform) -> None:
        """Takes another transform, or chain, in place of the chain; keeps the old one if the new one does not fit."""
        old, alone = self.chain, self._alone
        if transform is self.transform:
            return
        if transform.container is not None:
            raise SpecError(
                f"TransformedEnv: {transform!r} belongs to an env already; pass its copy, transform.clone()"
            )
        self.chain = transform if isinstance(transform, Compose) else Compose(transform)
        self._alone = self.chain is not transform
        self.chain.set_container(self)
        try:
            self._rebuild()
        except Exception:
            self.chain.reset_parent()
            transform.reset_parent()
            self.chain, self._alone = old, alone
            self._rebuild()
            raise
        old.reset_parent()

    def append_transform(self, transform: Any) -> TransformedEnv:
        """Adds a transform at the end, in place, and returns the env."""
        return self.insert_transform(len(self.chain), transform)

    def insert_transform(self, index: int, transform: Any) -> TransformedEnv:
        """Adds a transform before the one at ``index``, in place, and returns the env."""
        self.chain.insert(index, transform)
        return self

    def before(self, transform: Transform) -> EnvBase:
        """The env with copies of the transforms that come before ``transform``."""
        leaves = self._around(transform)[0]
        copies = [leaf.clone() for leaf in leaves]
        env = TransformedEnv(self.base_env, Compose(*copies), auto_unwrap=False)
        for twin, leaf in zip(copies, leaves, strict=True):
            twin.follow(leaf)
            twin.__dict__["_overwritten"] = leaf._overwritten
        if self._aside or any(leaf._overwritten for leaf in leaves):  # by later transforms too
            env._aside, env._all_of_it = self._aside, False
            env._rebuild()
        return env

    def _around(self, transform: Transform) -> tuple[list[Transform], list[Transform]]:
        """The transforms before and after one, or a chain, of ours."""
        leaves = self.chain.leaves()
        own = transform.leaves() if isinstance(transform, Compose) else [transform]
        at = [i for i, leaf in enumerate(leaves) if any(leaf is one for one in own)] or [0]
        return leaves[: at[0]], leaves[at[-1] + 1 :]

    def name_outside(self, transform: Transform, key: NestedKey) -> NestedKey:
        """What the transforms after one of ours call an action or state."""
        for leaf in self._around(transform)[1]:
            key = dict(zip(leaf.in_keys_inv, leaf.out_keys_inv, strict=False)).get(key, key)
        return key

    def told_to(self, transform: Transform, tensordict: TensorDictBase) -> TensorDictBase:
        """The data of a step as the env before ``transform`` takes them."""
        noted = self._told.pop(transform, None) if self._tells else None
        if noted is not None:
            if (mask := get(tensordict, STEP)) is not None:  # who is left to be stepped by now
                put(noted, STEP, mask)
            return noted
        told = shallow(tensordict)
        for leaf in reversed(self._around(transform)[1]):
            told = leaf._inv_call(told)
        return told

    def _rebuild(self) -> None:
        """Lets every transform see the specs before it, and edit them."""
        locked = self.is_spec_locked
        self.set_spec_lock_(False)
        self.chain.empty_cache()
        self._edit_specs()
        if self._note_overwritten() | self._note_aside():
            self.chain.empty_cache()
            self._edit_specs()
        if self._truncates:
            super().add_truncated_keys()
        outside = self.full_observation_spec
        self._changed = {
            key: (leaf.shape, leaf.dtype)
            for key, leaf in self.base_env.full_observation_spec.items(True, True)
            if key in outside and (outside[key].shape != leaf.shape or outside[key].dtype != leaf.dtype)
        }
        leaves, plain = self.chain.leaves(), Transform
        named = any(leaf.in_keys_inv or leaf.enable_inv_on_reset for leaf in leaves)
        self._tells = named or any(type(leaf)._inv_call is not plain._inv_call for leaf in leaves)
        self._notes = (
            any(leaf.asks_what_was_told for leaf in leaves) and type(self.chain)._inv_call is Compose._inv_call
        )
        hook = plain._reset_env_preprocess
        self._prepares_resets = named or any(type(leaf)._reset_env_preprocess is not hook for leaf in leaves)
        self.set_spec_lock_(locked)

    def _family(self, kind: str) -> Composite:
        if not self.cache_specs:
            self.cache_specs = True  # while they are derived anew
            try:
                self._rebuild()
            finally:
                self.cache_specs = False
        return super()._family(kind)

    def _refuse_ragged(self, done: Composite) -> None:
        """Raises where the envs of a pool have groups of different sizes: their entries are lists, not tensors."""
        if any(isinstance(leaf, Stacked) for leaf in done.values(True, True)):
            raise Unsupported(
                f"{type(self).__name__}: the envs of this {type(self.base_env).__name__} have groups of different "
                f"sizes; give each its transforms: SerialEnv(n, lambda: TransformedEnv(make(), ...))"
            )

    def _edit_specs(self) -> None:
        base = self.base_env
        given: Any = {kind: getattr(base, f"full_{kind}_spec").clone() for kind in SIDE}
        self._refuse_ragged(given["done"])
        for key, place in self._aside.items():
            kind = next(kind for kind in ("observation", "done", "state") if key in given[kind])
            given["observation"][place] = given[kind][key].clone()
        self._take_specs(base.batch_size, base.device, given)
        tree, self.below_resets_itself, self._rows = getattr(base, "tree", None), None, []
        for name in ("tree", "group_map"):
            self.__dict__.pop(name, None)
        for leaf in self.chain.leaves():
            self._rows.append(self.batch_size)
            leaf.join(self)
            leaf.check_reads()
            batch_size = leaf.transform_env_batch_size(self.batch_size)
            device = leaf.transform_env_device(self.device)
            sides = leaf.transform_output_spec(self.output_spec), leaf.transform_input_spec(self.input_spec)
            specs: Any = {name.split("_")[1]: spec for side in sides for name, spec in side.items()}
            leaf.respec(specs)
            self._take_specs(batch_size, device, specs)
            tree = leaf.transform_tree(tree)
            if tree is not None:
                self.__dict__.update(tree=tree, group_map=tree.group_map)
        masks = [leaf.mask_keys() for leaf in self.chain.leaves()]
        self._mask_keys = {k: mask for told in (base._mask_keys, *masks) for k, mask in told.items()}

    def _take_specs(self, batch_size: Size, device: torch.device | None, specs: dict[str, Composite]) -> None:
        self.__dict__.update(_batch_size=batch_size, _device=device, _cache={})
        for side in ("_input_spec", "_output_spec"):
            self.__dict__[side] = Composite(shape=batch_size, device=device)
        for kind, spec in specs.items():
            assign(self, kind, spec, derived=True)

    def _note_overwritten(self) -> bool:
        """Tells every transform which of its entries later ones change; whether that is news to any."""
        if not self._all_of_it:
            return False
        news, leaves = False, self.chain.leaves()
        for i, leaf in enumerate(leaves):
            keys = [*self.base_env.observation_keys, *(leaf.out_keys or ()), *leaf.memories()]
            found = frozenset(key for key in keys if any(later.overwrites(key) for later in leaves[i + 1 :]))
            news |= found != leaf._overwritten
            leaf.__dict__["_overwritten"] = found
        return news

    # --- what transforms of the envs in a pool remember ------------------------------------------

    @property
    def remembered(self) -> list[NestedKey]:
        """The entries of the data that the transforms, here and below, go on from."""
        return [*self._memory_keys(), *(key for key in self.base_env.remembered if key not in self._memory_keys())]

    def _note_aside(self) -> bool:
        """Finds what the transforms of the envs in a pool remember and ours change; whether that is news."""
        if not self._all_of_it:
            return False
        leaves, before = self.chain.leaves(), self._aside
        changed = [key for key in self.base_env.remembered if any(leaf.overwrites(key) for leaf in leaves)]
        taken = self.base_env.observation_keys
        self._aside = {key: untaken(beside(key, f"_below_{last(key)}"), taken) for key in changed}
        return self._aside != before

    def _kept_aside(self, fresh: TensorDictBase) -> TensorDictBase:
        """Writes that beside what the env gave, in place."""
        for key, place in self._aside.items():
            value = fetch(fresh, key)
            if value is not None:
                fresh.set(place, value.clone())
        return fresh

    def _put_back(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Data with that where the env looks for it; new where there is any."""
        if not self._aside:
            return tensordict
        out = shallow(tensordict)
        for key, place in self._aside.items():
            value = fetch(out, place)
            if value is not None:
                out.set(key, value)
        return out

    # --- stepping --------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if kwargs:
            check_reset_options(self.base_env, kwargs)
        return self._after_reset(tensordict, self.base_env._reset(self._before_reset(tensordict), **kwargs))

    @contextmanager
    def _resets_below(self) -> Iterator[None]:
        """Within it, and only there, the env under all transforms knows that it resets itself."""
        base = under_transforms(self)
        before, base._auto_reset = base._auto_reset, self.below_resets_itself
        try:
            yield
        finally:
            base._auto_reset = before

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        if self.below_resets_itself is None:
            return self._reset_rows_below(request, tensordict)
        with self._resets_below():
            return self._reset_rows_below(request, tensordict)

    def _reset_rows_below(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        asked = self._before_reset(request)
        held: Any = tensordict
        if self.batch_size != self.base_env.batch_size:
            held = self._before_reset(tensordict)  # in the shape that the env knows
        elif self._changed or self._aside:
            held = self._unchanged(tensordict)
        fresh = self.base_env._reset_rows(request if asked is None else asked, held)
        return self._after_reset(unite(shallow(tensordict), request), fresh)

    def _before_reset(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        given = None if tensordict is None else shallow(tensordict)
        if self._prepares_resets:
            given = self.chain._reset_env_preprocess(given)
        return given if given is None or not (self._changed or self._aside) else self._unchanged(given)

    def _unchanged(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Data without the observations that have another form than the env gives them, which it cannot go on with."""
        lead, odd = tensordict.ndim - len(self.base_env.batch_size), []
        for key, form in self._changed.items():
            value = fetch(tensordict, key)
            if not isinstance(value, Tensor) or (value.shape[lead:], value.dtype) != form:  # not undone by an inverse
                odd.append(key)
        return self._put_back(tensordict.exclude(*odd) if odd else tensordict)

    def _after_reset(self, tensordict: TensorDictBase | None, fresh: TensorDictBase) -> TensorDictBase:
        if not self.base_env.gives_all_flags:
            self.base_env.plan.done.complete(fresh)
        if self._aside:
            fresh = self._kept_aside(fresh)
        return self.chain._reset(new({}, fresh.batch_size, fresh.device) if tensordict is None else tensordict, fresh)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.below_resets_itself is None:
            return self._step_below(tensordict)
        with self._resets_below():
            return self._step_below(tensordict)

    def _step_below(self, tensordict: TensorDictBase) -> TensorDictBase:
        told, base = shallow(tensordict), self.base_env
        if self._tells:
            told = self._inv_noting(told) if self._notes else self.chain._inv_call(told)
            mask = get(told, STEP)
            if mask is not None and get(tensordict, STEP) is not mask:
                return self._step_where(mask, tensordict, told)
        if self._aside or (self._changed and get(told, STEP) is not None):
            told = self._unchanged(told)
        following = finish(base, base.plan, base._step(told), told)
        following = self.chain._step(tensordict, self._kept_aside(following) if self._aside else following)
        self._told.clear()
        return following

    def _inv_noting(self, told: TensorDictBase) -> TensorDictBase:
        """What the env is told; what it is on the way there is noted for the transforms that ask for it."""
        self._told.clear()
        for leaf in reversed(self.chain.leaves()):
            if leaf.asks_what_was_told:
                self._told[leaf] = shallow(told)
            told = returned(leaf, "_inv_call", leaf._inv_call(told))
        return told

    def _step_where(self, mask: Tensor, tensordict: TensorDictBase, told: TensorDictBase) -> TensorDictBase:
        """Steps the rows that a transform left to be stepped; the others stand still, and the transforms know it."""
        base, ndim = self.base_env, tensordict.ndim
        where = rows(mask.reshape(tensordict.batch_size), ndim)
        if not bool(where.any()):
            return standing(self, tensordict).clone()
        told = self._unchanged(told)
        put(told, STEP, rows(mask, told.ndim))
        following = self._kept_aside(get(base.step(told), "next"))
        known = shallow(tensordict)
        put(known, STEP, where)
        made = self.chain._step(known, following)
        return made if bool(where.all()) else choose(where, made, standing(self, tensordict), ndim)

    def _rollout(self, max_steps: int, policy: Any, options: RolloutOptions) -> TensorDictBase | None:
        """The whole rollout of the env, with the transforms applied to all steps at once, where they are pure."""
        base = self.base_env
        if policy is not None or type(base)._rollout is EnvBase._rollout or self._aside or not self._all_pure():
            return None
        if self.run_type_checks:  # of every step
            return None
        if options.callback is not None or options.actions is not None or options.tensordict is not None:
            return None
        if options.compact or options.out is not None or options.storing_device is not None:
            return None
        stream = base.action_stream if self._own_draws() else self.action_stream  # draws as they would be, one by one
        with drawing_from(base, stream):
            data = base._rollout(max_steps, None, options)
        if data is None:
            return None
        for leaf in self.chain.leaves():
            leaf._each(data, must=False)
            leaf._each(data.get("next"), must=True)
        return data

    def _all_pure(self) -> bool:
        """Whether every transform is one of single values, and none of an entry that the env or a draw reads."""
        base = self.base_env
        taken = {*base.done_keys, *base.state_keys, *base.action_keys}
        taken |= {nested(entry.mask) for entry in base.plan.actions if entry.mask is not None}
        return all(leaf.is_pure() and not taken & {*(leaf.out_keys or ())} for leaf in self.chain.leaves())

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draws random actions; in the way of the env below if it has one and the transforms leave it what it reads."""
        own = self._cache["own_draws"] if "own_draws" in self._cache else self._own_draws()
        return self.base_env.rand_action(tensordict) if own else super().rand_action(tensordict)

    def _own_draws(self) -> bool:
        """Whether random actions are those of the env under the transforms."""
        if "own_draws" not in self._cache:
            base, seen = self.base_env, {*self.observation_keys}
            own = type(base).rand_action is not EnvBase.rand_action and seen >= {*base.state_keys}
            kept = all(type(t)._inv_call is Transform._inv_call and not t.in_keys_inv for t in self.chain.leaves())
            self._cache["own_draws"] = own and kept and self.full_action_spec == base.full_action_spec
        return bool(self._cache["own_draws"])

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        self.base_env._on_reset(tensordict)
        self.chain._on_reset(tensordict)

    def _set_seed(self, seed: int | None) -> None:
        self.base_env.set_seed(seed)
        self.chain.empty_cache()
        for i, leaf in enumerate(self.chain.leaves()):
            leaf.reseed(None if seed is None else seed + i)

    def seed_of(self, transform: Transform) -> int:
        """The seed of one of the transforms, where :meth:`set_seed` was not called: as if with the env's own."""
        return self.base_env.action_stream.seed + len(self._around(transform)[0])

    def _action_seed(self) -> int:
        return self.base_env.action_stream.seed  # an env that was made with a seed stays seeded

    def _in_batch(self, value: Any, batch: Size, new: Size) -> Any:
        """Rows ``[*batch, ...]`` in the batch of a transform that has the same ones, or of the env below."""
        if batch == new or batch.numel() != new.numel() or not self.batch_locked:
            return value
        return value.reshape((*new, *value.shape[len(batch) :]) if isinstance(value, Tensor) else new)

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        below = None if tensordict is None else self._put_back(tensordict)
        if below is not None:
            below = self._in_batch(below, below.batch_size, self.base_env.batch_size)
        state = self.base_env.get_state(below)
        known = {}
        for i, (leaf, batch) in enumerate(zip(self.chain.leaves(), self._rows, strict=True)):
            if (value := leaf.row_state()) is not None:
                known[str(i)] = self._in_batch(value, batch, state.batch_size).clone()
        if known:
            under = state.get(ROWS, None)
            state = state.copy().set(ROWS, known if under is None else {**known, BELOW: under})
        if tensordict is None:
            return state
        memory = tensordict.select(*self._memory_keys(), strict=False)  # what transforms remember lives in the data
        if memory.is_empty():
            return state
        memory = self._in_batch(memory, memory.batch_size, state.batch_size)
        below = state.get(MEMORY, None)  # of transforms under a vector of envs
        memory = memory.clone() if below is None else below.copy().update(memory.clone())
        return state.copy().set(MEMORY, memory)

    def _state_of(self, state: TensorDictBase, mask: Tensor, tensordict: TensorDictBase | None) -> TensorDictBase:
        memory = self._memory_keys()
        if memory and (tensordict is None or MEMORY not in state.keys()):
            raise SpecError(
                f"TransformedEnv.set_state: {memory} live in the data; with a mask, save them too, state = "
                f"env.get_state(td), and pass those of the rows that go on, env.set_state(state, mask, td)"
            )
        where = rows(mask, len(self.batch_size))
        where = self._in_batch(where, where.shape, state.batch_size)
        return choose(where, state, self._get_state(tensordict), where.ndim)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        memory, mine, known = state.get(MEMORY, None), self._memory_keys(), state.get(ROWS, None)
        if memory is not None:
            below = memory.exclude(*mine)
            state = state.exclude(MEMORY) if below.is_empty() else state.copy().set(MEMORY, below)
        if known is not None:
            under = known.get(BELOW, None)
            state = state.exclude(ROWS) if under is None else state.copy().set(ROWS, under)
        fresh = self.base_env.set_state(state)
        self.base_env.plan.done.complete(fresh)
        out = self.chain._restored(self._kept_aside(fresh))
        for i, (leaf, batch) in enumerate(zip(self.chain.leaves(), self._rows, strict=True)):
            if known is not None and (held := known.get(str(i), None)) is not None:
                leaf.set_row_state(self._in_batch(held, state.batch_size, batch).clone())
        if memory is None:
            return out
        return out.update(self._in_batch(memory.select(*mine, strict=False), memory.batch_size, out.batch_size))

    def _memory_keys(self) -> list[NestedKey]:
        """What the transforms added to the data of a step, or what does not follow from the env's state alone."""
        below = self.base_env
        base = {*below.observation_keys, *below.done_keys, *below.state_keys}
        base -= {key for leaf in self.chain.leaves() for key in leaf.memories()}
        kept = dict.fromkeys((*self.observation_keys, *self.done_keys, *self.state_keys))
        return [key for key in kept if key not in base]

    def fake_tensordict(self) -> TensorDictBase:
        """Zeros in the shape of a step's data, as the transforms have them."""
        return self.chain.transform_fake_tensordict(super().fake_tensordict())

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Whether entries that are not there are passed over rather than an error, for all transforms."""
        self.chain.set_missing_tolerance(mode)

    def add_truncated_keys(self) -> Self:
        """Adds a ``truncated`` flag beside every ``done`` flag; it stays where transforms change."""
        self._truncates = True
        return super().add_truncated_keys()

    def to(self, device: torch.device | str | int) -> TransformedEnv:  # type: ignore[override]
        """Moves the env under the transforms, and their buffers."""
        self.base_env.to(device)
        super().to(device)
        self._rebuild()
        return self

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes the env under the transforms too."""
        self.chain.close()
        self.base_env.close(raise_if_closed=raise_if_closed)
        super().close(raise_if_closed=raise_if_closed)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "base_env" not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self.base_env, name)

    def __repr__(self) -> str:
        return f"TransformedEnv({self.base_env!r}, {self.transform!r})"


def _follow(env: TransformedEnv, _: Any) -> None:
    """Lets specs follow what an env has loaded, whose own env may have loaded bounds."""
    env._rebuild()

"""``CompiledEnv``: the base of wrappers that have functions compiled by JAX, which cannot be pickled."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from marlenv.wrappers._base import EnvWrapper


class CompiledEnv(EnvWrapper):
    """An env with functions that JAX compiled: copies of it share them, and one out of a pickle makes them anew.
    Abstract.
    """

    _functions: Any

    @abstractmethod
    def _compiled(self) -> Any:
        """The functions."""

    def _init_env(self) -> None:
        self._functions = self._compiled()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_functions": _Shared(self._functions)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        functions = state["_functions"].functions
        super().__setstate__({**state, "_functions": functions})
        if functions is None:
            self._functions = self._compiled()


class _Shared:
    """Functions on their way to a copy; a pickle leaves them out."""

    def __init__(self, functions: Any = None) -> None:
        self.functions = functions

    def __deepcopy__(self, memo: Any) -> _Shared:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shared, ()

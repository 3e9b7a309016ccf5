"""Which of gym and gymnasium is meant, and code for certain versions of a library."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType, TracebackType
from typing import Any, ClassVar, TypeVar

from marlenv.errors import MissingExtra, NotForVersion, SpecError, SpecTypeError
from marlenv.optional import has, need

KNOWN = ("gymnasium", "gym")
"""The backends, the one that is preferred first."""
_chosen: ContextVar[ModuleType | None] = ContextVar("gym_backend", default=None)
_default: list[ModuleType] = []
Function = TypeVar("Function", bound=Callable[..., Any])


def gym_backend(submodule: str | None = None) -> ModuleType:
    """The library that envs of gym are made with now: gymnasium where it is installed, else gym, if nothing was set.

    Args:
        submodule: a module of it rather than the library itself.

    Raises:
        MissingExtra: neither is installed.

    >>> gym_backend().__name__, gym_backend("spaces").__name__
    ('gymnasium', 'gymnasium.spaces')
    """
    backend = _chosen.get() or (_default[0] if _default else None)
    if backend is None:
        name = next((name for name in KNOWN if has(name)), None)
        if name is None:
            raise MissingExtra('gym_backend needs gymnasium or gym; pip install "marlenv-torch[gymnasium]"')
        backend = importlib.import_module(name)
    return backend if submodule is None else importlib.import_module(f"{backend.__name__}.{submodule}")


class set_gym_backend:  # noqa: N801 - TorchRL's name
    """Sets the library that envs of gym are made with: for a ``with`` block, for a function, or forever.

    Args:
        backend: ``"gym"``, ``"gymnasium"``, the module, a function that returns it, or an env of the library.

    Raises:
        MissingExtra: it is not installed.

    >>> with set_gym_backend("gymnasium"):
    ...     gym_backend().__name__
    'gymnasium'
    """

    def __init__(self, backend: str | ModuleType | Callable[[], ModuleType]) -> None:
        if isinstance(backend, str):
            backend = need(backend, "set_gym_backend")
        elif hasattr(backend, "action_space"):
            backend = _library_of(backend)
        if not callable(backend) and not isinstance(backend, ModuleType):
            raise SpecTypeError(
                f"set_gym_backend: expected a module, its name or a function that returns it, got {backend!r}"
            )
        self.backend: ModuleType = backend if isinstance(backend, ModuleType) else backend()
        self._tokens: list[Any] = []

    def set(self) -> None:
        """From here on, everywhere."""
        _default[:] = [self.backend]

    def __enter__(self) -> ModuleType:
        self._tokens.append(_chosen.set(self.backend))
        return self.backend

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _chosen.reset(self._tokens.pop())

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.backend):
                return function(*args, **kwargs)

        return within  # type: ignore[return-value]


def _library_of(env: Any) -> ModuleType:
    """The library that an env is of: that of its space of actions."""
    of = {kind.__module__.partition(".")[0] for kind in type(env.action_space).__mro__}
    name = next((name for name in KNOWN if name in of), None)
    if name is None:
        raise SpecTypeError(f"set_gym_backend: {type(env).__name__} is no env of {' or '.join(KNOWN)}")
    return importlib.import_module(name)


class implement_for:  # noqa: N801 - TorchRL's name
    """Decorates functions of one name, each for some versions of a library; the one that fits is called.

    For ``"gym"`` and ``"gymnasium"`` the library is the one of :func:`gym_backend`, when the function is called; where
    nothing is for that one, the other, if it is installed.

    Args:
        module_name: the library, or a function that imports it.
        from_version: the first version, itself included; any when left out.
        to_version: the first version that it is not for; none when left out.
        class_method: the function is a class method.
        compilable: taken for TorchRL's sake; libraries are always looked at when the function is called.

    A function that is decorated again under another name is one more implementation by its method ``register``.

    >>> @implement_for("torch", None, "1.0")
    ... def reshape(): return "long ago"
    >>> @reshape.register("torch", "1.0")
    ... def _(): return "now"
    >>> reshape()
    'now'
    """

    _known: ClassVar[dict[str, list[tuple[implement_for, Callable[..., Any]]]]] = {}

    def __init__(
        self,
        module_name: str | Callable[[], ModuleType],
        from_version: str | None = None,
        to_version: str | None = None,
        *,
        class_method: bool = False,
        compilable: bool = False,
    ) -> None:
        self.module_name, self.from_version, self.to_version = module_name, from_version, to_version
        self.class_method = class_method
        if not isinstance(module_name, str) and not callable(module_name):
            raise SpecTypeError(
                f"implement_for: expected a module's name or a function that imports it, got {module_name!r}"
            )
        for version in (from_version, to_version):
            if version is not None and not (isinstance(version, str) and version[:1].isdigit()):
                raise SpecError(f"implement_for: a version is a string such as '0.26', got {version!r}")

    def __call__(self, function: Callable[..., Any]) -> Any:
        return self._added(function, f"{function.__module__}.{function.__qualname__}")

    def _added(self, function: Callable[..., Any], name: str) -> Any:
        every = self._known.setdefault(name, [])
        every[:] = [(one, known) for one, known in every if one._range != self._range] + [(self, function)]

        @functools.wraps(function)
        def fitting(*args: Any, **kwargs: Any) -> Any:
            for chosen in (True, False):
                for one, implementation in reversed(every):
                    if one.fits(chosen):
                        return implementation(*args, **kwargs)
            ranges = ", ".join(str(one) for one, _ in every)
            raise NotForVersion(f"{name.rpartition('.')[2]}: not for the versions that are installed, but for {ranges}")

        def register(*range_: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
            return lambda function: implement_for(*range_, **options)._added(function, name)

        fitting.register = register  # type: ignore[attr-defined]
        return classmethod(fitting) if self.class_method else fitting

    @property
    def _range(self) -> tuple[Any, str | None, str | None]:
        return self.module_name, self.from_version, self.to_version

    def __str__(self) -> str:
        name = self.module_name if isinstance(self.module_name, str) else self.module_name.__name__
        return f"{name} from {self.from_version or '0'}" + (f" to {self.to_version}" if self.to_version else "")

    def fits(self, chosen: bool = True) -> bool:
        """Whether the library is installed, of such a version, and, of gym and gymnasium, the ``chosen`` one."""
        module = self._module(chosen)
        if module is None:
            return False
        version = _numbers(module.__version__)
        high = self.to_version is None or version < _numbers(self.to_version)
        return high and (self.from_version is None or version >= _numbers(self.from_version))

    def _module(self, chosen: bool) -> ModuleType | None:
        name = self.module_name
        if not isinstance(name, str):
            return name()
        if chosen and name in KNOWN:
            module = gym_backend()
            return module if module.__name__ == name else None
        return importlib.import_module(name) if has(name) else None


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version; ``"0.26.2.dev1"`` has three."""
    found = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()  # 1.0 is 1
    return tuple(numbers)

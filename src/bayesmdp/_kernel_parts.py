"""How kernels that other kernels call are compiled for them; see `bayesmdp._jit`.

Apart because it rests on how numba is built inside.
"""

from types import SimpleNamespace
from typing import Any

from numba.core import codegen, compiler


class _PartLibrary(codegen.JITCodeLibrary):
    """Code for other libraries to link; nothing is made of it alone."""

    def _optimize_final_module(self) -> None:
        """Leave it to those that take it in."""

    def _finalize_final_module(self) -> None:
        """Say that nothing will be added."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return that there is none, once everything is linked."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> Any:
        """Stand in for the engine, which knows nothing of this code."""
        return SimpleNamespace(set_env=lambda name, environment: None)


class PartCompiler(compiler.Compiler):
    """Compiles as usual, but into a library of parts."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[no-untyped-call]
        engine = self.state.targetctx.codegen()
        self.state.library = _PartLibrary(engine, "part")  # type: ignore[no-untyped-call]

"""Compiler classes that link and optimise each entry point once, with every kernel that it calls.

By default numba optimises a kernel together with its callees, emits machine code for it, and then does the same
again for each of its callers. Kernels that only other kernels call need neither: they stay LLVM code of one
function each, until an entry point links the whole call graph and optimises it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from llvmlite import binding
from numba.core import codegen, compiler, typed_passes, untyped_passes
from numba.core.compiler_machinery import PassManager

from peekrank._jit.inference import Flags, kernel_target, kernel_typing
from peekrank._jit.progress import compiling

# numba ships no annotations for these modules.
_BINDING: Any = binding
_CODEGEN: Any = codegen
_COMPILER: Any = compiler
_PASSES: Any = PassManager

# Passes for language features that no kernel of this package uses: closures, comprehensions, `with` blocks,
# `literally`, `literal_unroll`, inlining of numba's own IR, and parallel loops.
_UNUSED_PASSES = frozenset({
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    typed_passes.InlineOverloads,
    typed_passes.DumpParforDiagnostics,
    typed_passes.NoPythonSupportedFeatureValidation,
})  # fmt: skip


class _KernelLibrary(_CODEGEN.JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of one kernel. Its functions get three cheap passes; the entry point runs the full pipeline."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = _BINDING.create_new_function_pass_manager(), self._codegen._pass_builder()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)


class InnerLibrary(_KernelLibrary):
    """Code of a kernel that only other kernels call. It is neither linked nor turned into machine code."""

    _whole_module: Any = None

    @property
    def codegen(self) -> Any:
        """Return the code generator without `set_env`, which would write to machine code that does not exist."""
        return _WithoutEnvironments(self._codegen)

    def finalize(self) -> None:
        """Mark the library as complete."""
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - numba's signature
        """Return 0, numba's answer for a function without machine code."""
        self._ensure_finalized()
        return 0

    def own_module(self) -> Any:
        """Return the module of this kernel alone, ready to be linked."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """Return the module with all callees, for libraries other than an `EntryLibrary`, which link one level."""
        if self._whole_module is None:
            self._whole_module = self.own_module().clone()
            _link(self._whole_module, _callees(self))
        return self._whole_module


class EntryLibrary(_KernelLibrary):
    """Code of a kernel that Python calls, with every kernel below it."""

    inline_all = False

    def finalize(self) -> None:
        """Link all kernels that this one calls, directly or not, then optimise and emit machine code."""
        libraries = _callees(self)
        for library in libraries:
            self._reload_init.update(library._reload_init)
        _link(self._final_module, libraries)
        self._linking_libraries: list[Any] = []
        # Sums that LLVM may reorder must be the same function in every entry point, or loops and agents would
        # differ.
        apart = {
            name for library in libraries if getattr(library, "reassociates", False) for name in _defined(library)
        }
        for function in self._final_module.functions:
            if function.name in apart:
                function.add_function_attribute("noinline")
            elif (
                self.inline_all
                and not function.is_declaration
                and function.linkage == _BINDING.Linkage.linkonce_odr
            ):
                function.add_function_attribute("alwaysinline")
        super().finalize()


class InliningLibrary(EntryLibrary):
    """Code of a kernel that Python calls, with every kernel below it inlined."""

    inline_all = True


class _WithoutEnvironments:
    """A code generator that sets no environments."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing."""


def _callees(library: Any) -> list[Any]:
    """Return all libraries below this one, each before those it calls: LLVM drops functions without callers."""
    order: dict[Any, None] = {}

    def visit(one: Any) -> None:
        for callee in one._linking_libraries:
            if callee not in order:
                if isinstance(callee, InnerLibrary):  # others are linked with their callees
                    visit(callee)
                order[callee] = None

    visit(library)
    return list(reversed(order))


def _defined(library: Any) -> list[str]:
    """Return the names of the functions that a kernel's own module defines."""
    return [function.name for function in library.own_module().functions if not function.is_declaration]


def _link(module: Any, libraries: Iterable[Any]) -> None:
    for library in libraries:
        inner = isinstance(library, InnerLibrary)
        part = library.own_module() if inner else library._get_module_for_linking()
        module.link_in(part, preserve=True)


class _KernelCompiler(_COMPILER.Compiler):  # type: ignore[misc]
    """numba's compiler with another code library."""

    library_class: Any
    unused_passes: frozenset[Any] = frozenset()

    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        local_types: Any,
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, Flags(flags), local_types)
        self.state.typingctx = kernel_typing(typingctx)
        self.state.targetctx = kernel_target(self.state.targetctx, self.state.typingctx)

    def compile_extra(self, func: Any) -> Any:
        """Compile a function."""
        self.state.library = self.library_class(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.reassociates = bool(self.state.flags.fastmath)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        """Return numba's pipelines without the passes that are not needed."""
        pipelines = []
        for default in super().define_pipelines():
            pipeline = _PASSES(default.pipeline_name)
            for one, description in default.passes:
                if one not in self.unused_passes:
                    pipeline.add_pass(one, description)
            pipeline.finalize()
            pipelines.append(pipeline)
        return pipelines


class _InnerCompiler(_KernelCompiler):
    """Compile a kernel that other kernels call."""

    library_class = InnerLibrary


class _EntryCompiler(_KernelCompiler):
    """Compile a kernel that Python calls."""

    library_class = EntryLibrary

    def compile_extra(self, func: Any) -> Any:
        """Compile a function, and set the environments of the kernels that it calls."""
        with compiling(kept=bool(self.unused_passes)):
            result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        return result


@cache
def compiler_class(*, for_python: bool, plain: bool, inline_all: bool = False) -> Any:
    """Return the compiler class for a kernel.

    Parameters
    ----------
    for_python
        Whether Python calls it.
    plain
        Whether it belongs to this package, and does without closures, comprehensions and the like.
    inline_all
        Whether to inline every kernel that it calls, if Python calls it.
    """
    base = _EntryCompiler if for_python else _InnerCompiler
    options: dict[str, Any] = {"unused_passes": _UNUSED_PASSES} if plain else {}
    if for_python and inline_all:
        options["library_class"] = InliningLibrary
    return type(base.__name__, (base,), options)

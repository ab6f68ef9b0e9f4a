"""Compiles the kernels once, and loads them from a cache afterwards.

Numba turns `kernels.py` into LLVM's language, LLVM into an object file. The file is cached like the
graphs for onnxruntime. With a cached file, Numba need not be imported, which takes longer than an
answer: llvmlite, which belongs to it, loads the file.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calcgpt.inference.cache import cached
from datagen.extras import require

ENTRY = "calcgpt_decode"
SOURCES = (
    "kernels.py",
    "layers.py",
    "products.py",
    "numba_types.py",
    "weights.py",
    "machine_code.py",
)
N_POINTER, N_INT = 13, 8  # the arguments of `kernels.decode`


@functools.cache
def decode() -> Any:
    """Returns `kernels.decode` as a C function, which runs without Python's lock.

    Raises UserError if a library is missing.
    """
    _libraries.append(_load(object_code()))  # as long as the process runs
    address = _libraries[-1][ENTRY]
    arguments = [ctypes.c_void_p] * N_POINTER + [ctypes.c_int64] * N_INT
    return ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(address)


_libraries: list[Any] = []


def object_code() -> bytes:
    """Returns the kernels as an object file for this processor, from the cache if it is there."""
    return cached(f"{_key()}.o", compile_kernels, "the native engine's machine code")


def _llvm() -> Any:
    require("engine 'native'", "llvmlite", "numba")
    import llvmlite.binding as llvm

    return llvm


def _key() -> str:
    """Returns the SHA-256 of what the machine code depends on."""
    llvm = _llvm()
    versions = _folders_of("numba"), _folders_of("llvmlite")
    processor = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    digest = hashlib.sha256(repr((versions, processor, llvm.get_default_triple())).encode())
    for source in SOURCES:
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()


def _folders_of(package: str) -> list[str]:
    """Returns the names of a package's metadata folders, which have its version. Reading the
    metadata takes longer."""
    spec = find_spec(package)
    site = Path(spec.origin).parents[1] if spec and spec.origin else Path()
    return sorted(folder.name for folder in site.glob(f"{package}-*.dist-info"))


def _target_machine(llvm: Any) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )


def compile_kernels() -> bytes:
    """Returns the kernels as an object file, which takes Numba some seconds."""
    import numba

    from calcgpt.inference.native import kernels, numba_types

    llvm = _llvm()
    signature = numba_types.signature(kernels.decode)
    entry = numba.cfunc(signature, **numba_types.OPTIONS)(kernels.decode)
    module = llvm.parse_assembly(entry.inspect_llvm())
    function = module.get_function(entry._wrapper_name)
    function.name = ENTRY
    for part in (*module.functions, *module.global_variables):
        if not part.is_declaration and part.name != ENTRY:
            part.linkage = "internal"
    # With only one way in, LLVM sees that no kernel raises an exception, and removes the code that
    # would report one. It is all that needs Python.
    machine = _target_machine(llvm)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    outside = [f.name for f in module.functions if f.is_declaration and "llvm." not in f.name]
    assert not outside, f"the native engine must not call {outside}"
    code: bytes = machine.emit_object(module)
    return code


def _load(code: bytes) -> Any:
    """Returns the addresses in a loaded object file, which stays loaded as long as they are kept.

    JITLink puts all of its sections side by side. The older MCJIT leaves the place of each to the
    system, and aborts the process where code and constants come to lie more than 2 GB apart.
    """
    llvm = _llvm()
    jit = llvm.create_lljit_compiler(_target_machine(llvm), use_jit_link=True)
    return llvm.JITLibraryBuilder().add_object_img(code).export_symbol(ENTRY).link(jit, ENTRY)

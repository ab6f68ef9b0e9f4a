"""Compiles the kernels once, and loads them from a cache afterwards.

Numba compiles `kernels.py` to LLVM IR, and LLVM compiles the IR to an object file. The file is
cached, and llvmlite alone can load it. Numba is then not imported, because the import takes longer
than an answer.
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
    "attention.py",
    "kernels.py",
    "layers.py",
    "products.py",
    "numba_types.py",
    "weights.py",
    "entries.py",
    "machine_code.py",
)
N_POINTER, N_INT = 13, 8  # arguments of `kernels.decode`: pointers, then integers


@functools.cache
def load_decode() -> Any:
    """Returns `kernels.decode` as a C function, which runs without the GIL.

    Raises UserError if a library is missing.
    """
    _libraries.append(_load(object_code()))
    address = _libraries[-1][ENTRY]
    argument_types = [ctypes.c_void_p] * N_POINTER + [ctypes.c_int64] * N_INT
    return ctypes.CFUNCTYPE(ctypes.c_int64, *argument_types)(address)


_libraries: list[Any] = []  # keeps the code loaded as long as the process runs


def object_code() -> bytes:
    """Returns the object file of the kernels for this processor, from the cache if possible.

    Raises UserError if a library is missing.
    """
    return cached(f"{_key()}.o", compile_kernels, "the native engine's machine code")


def _llvm() -> Any:
    require("engine 'native'", "llvmlite", "numba")
    import llvmlite.binding as llvm

    return llvm


def _key() -> str:
    """Returns the cache key of the machine code: a SHA-256, in hexadecimal, of the sources, the
    versions of the libraries and the processor."""
    llvm = _llvm()
    versions = _metadata_folders("numba"), _metadata_folders("llvmlite")
    processor = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    digest = hashlib.sha256(repr((versions, processor, llvm.get_default_triple())).encode())
    for source in SOURCES:
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()


def _metadata_folders(package: str) -> list[str]:
    """Returns the names of a package's metadata folders, which contain its version. Reading the
    metadata itself would take longer."""
    spec = find_spec(package)
    site_packages = Path(spec.origin).parents[1] if spec and spec.origin else Path()
    return sorted(folder.name for folder in site_packages.glob(f"{package}-*.dist-info"))


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
    """Compiles the kernels and returns the object file. This takes some seconds."""
    import numba

    numba.config.DISABLE_JIT = 0  # NUMBA_DISABLE_JIT is for the functions of others

    from calcgpt.inference.native import kernels, numba_types

    llvm = _llvm()
    signature = numba_types.signature(kernels.decode)
    entry = numba.cfunc(signature, **numba_types.OPTIONS)(kernels.decode)
    module = llvm.parse_assembly(entry.inspect_llvm())
    function = module.get_function(entry._wrapper_name)
    function.name = ENTRY
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != ENTRY:
            value.linkage = "internal"
    # With a single entry point, LLVM can prove that no kernel raises an exception. It removes the
    # code that would report one, which is the only code that calls Python.
    machine = _target_machine(llvm)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    external = [f.name for f in module.functions if f.is_declaration and "llvm." not in f.name]
    assert not external, f"the native engine must not call {external}"
    code: bytes = machine.emit_object(module)
    return code


def _load(code: bytes) -> Any:
    """Loads an object file. Returns a library that gives the address of `ENTRY`; the code stays
    loaded as long as the library exists.

    JITLink allocates all sections next to each other. The older MCJIT allocates each on its own,
    and aborts the process if code and constants are more than 2 GB apart.
    """
    llvm = _llvm()
    jit = llvm.create_lljit_compiler(_target_machine(llvm), use_jit_link=True)
    return llvm.JITLibraryBuilder().add_object_img(code).export_symbol(ENTRY).link(jit, ENTRY)

"""The native engine's machine code is loaded wherever there is room for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forks import PATIENCE

# Takes all memory addresses but two holes that are 4 GB apart: one has room for the instructions
# alone, the other for all else. Then it loads the code.
PROGRAM = """
import ctypes, mmap
import llvmlite.binding as llvm
from calcgpt.inference.native.machine_code import load_decode, object_code

load_decode()
load_decode.cache_clear()
sections = llvm.ObjectFileRef.from_data(object_code()).sections()
pages = -(-sum(part.size() for part in sections if part.is_text()) // mmap.PAGESIZE)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NO_RESERVE, PRIVATE_ANONYMOUS, FAILED = 0x4000, 0x22, 2**64 - 1

def take(size):
    return libc.mmap(None, size, 0, PRIVATE_ANONYMOUS | NO_RESERVE, -1, 0)

apart, size = 4 * 2**30, 2**34
region = take(apart)
assert region != FAILED
while size >= mmap.PAGESIZE:  # every hole above the region, the largest first
    while (address := take(size)) != FAILED and address > region:
        pass
    if address != FAILED:
        libc.munmap(address, size)
    size //= 2
libc.munmap(region + apart - pages * mmap.PAGESIZE, pages * mmap.PAGESIZE)
assert load_decode()
print("loaded")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="takes addresses as Linux gives them")
def test_it_can_be_loaded_into_crowded_memory() -> None:
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout) == (0, "loaded\n"), ended.stderr


def test_the_kernels_are_compiled_where_others_are_not(tmp_path: Path) -> None:
    program = "from calcgpt.inference.native.machine_code import load_decode; load_decode()"
    settings = {"NUMBA_DISABLE_JIT": "1", "CALCGPT_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")

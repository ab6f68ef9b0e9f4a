"""The loop of look-ups that writes a text: plain Python or, for long texts, compiled by Numba.

Shapes: S slots, R sources, K kinds of slots, M entries.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from calcgpt.inference.cache import cache_folder, changeable
from datagen.slots import MAX_SOURCES

N_CODES = 128  # ASCII
OUTSIDE, UNKNOWN = 255, 254  # entries that are no character: of no case, and not asked yet

log = logging.getLogger(__name__)

Loop = Callable[..., int]


def look_up(
    text: Any,  # the characters so far; the last is 0, which a source that does not exist reads
    written: Any,  # the probability of each character of the text
    first: int,  # slot
    stop: int,  # slot
    offset: int,  # position of slot 0 in the text
    kinds: Any,  # (S,)
    sources: Any,  # (S * R,) positions, -1 for none
    bases: Any,  # (K,)
    steps: Any,  # (K, R, N_CODES), but for the last sources that are never read: they add 0
    characters: Any,  # (M,)
    probabilities: Any,  # (M,)
) -> int:
    """Writes the characters of slots, in place, up to one whose entry is not a character. Returns
    that slot, or `stop`."""
    n_entry = len(characters)
    for slot in range(first, stop):
        kind = kinds[slot]
        index, source = bases[kind], slot * MAX_SOURCES
        for of_code in steps[kind]:
            index += of_code[text[sources[source]]]
            source += 1
        if index >= n_entry:
            return slot
        character = characters[index]
        if character >= UNKNOWN:
            return slot
        text[offset + slot] = character
        written[offset + slot] = probabilities[index]
    return stop


@cache
def compiled() -> Loop | None:
    """Returns `look_up` as machine code for arrays; None without Numba. The first time takes about
    a second, or less where the machine code is kept."""
    try:
        import numba
    except ImportError:
        return None
    folder = cache_folder() / "numba"
    if changeable(folder) is None:
        numba.config.CACHE_DIR = str(folder)
        try:
            kept: Loop = numba.njit(look_up, nogil=True, cache=True)
        except RuntimeError as error:  # no folder can be written to
            log.info("the compiled loop is not kept: %s", error)
        else:
            return kept
    loop: Loop = numba.njit(look_up, nogil=True)
    return loop

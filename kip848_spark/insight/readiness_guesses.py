"""Which client library a member uses, guessed from its client id or member id.

A guess may warn. It never makes a group ready: no record holds the library or its release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Guess(NamedTuple):
    """A member whose ``column`` (client_id or member_id) matches ``pattern`` uses ``library``."""

    library: str
    column: str
    pattern: str


def guess_libraries(members: pa.Table, guesses: Sequence[Guess]) -> tuple[pa.Array, pa.Array]:
    """string[n], string[n]: the library that each row of ``members`` uses by the first guess that
    matches, and the column that matched; null without a match.

    Patterns are those of RE2, whose time is linear in the text."""
    count = members.num_rows
    found = np.full(count, -1, np.int64)
    for number, guess in enumerate(guesses):
        if not (found < 0).any():
            break
        encoded = pc.dictionary_encode(members[guess.column].combine_chunks())
        matches = pc.match_substring_regex(encoded.dictionary, guess.pattern)
        rows = matches.take(encoded.indices).fill_null(False).to_numpy(zero_copy_only=False)
        found[rows & (found < 0)] = number
    absent = found < 0
    names = pa.array([guess.library for guess in guesses], pa.string())
    columns = pa.array([guess.column for guess in guesses], pa.string())
    index = pa.array(found, mask=absent)
    return names.take(index), columns.take(index)

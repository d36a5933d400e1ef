"""Files written so that nobody sees a part, by one process at a time.

::

    writing   replaces a file in one step
    locks     one run at a time, whatever became of the last one
    places    where a file really lies
"""

from capplan.files.locks import hold
from capplan.files.places import place_of
from capplan.files.writing import PART_SUFFIX, remove_parts, write_atomic

__all__ = ["PART_SUFFIX", "hold", "place_of", "remove_parts", "write_atomic"]

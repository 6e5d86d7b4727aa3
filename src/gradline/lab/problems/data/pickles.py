"""The pickles of CIFAR10, read so that they can build nothing but dictionaries, lists, numbers, bytes and byte arrays.

A pickle is a program. Two walls keep this one harmless:

1. its instructions are read first, and only those that CIFAR10's files use are allowed (no instruction that makes an
   object of a class, reads the registry of extensions, or takes a name from the stack);
2. the three names the files use (NumPy's array, type and reconstruction) are answered by stand-ins of our own, made
   anew for each file, which accept what the files say and refuse the rest. No other name is ever looked up, so nothing
   of NumPy or Python runs at the file's request.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from gradline.lab.problems.data.errors import DataError

# What data_batch_1, test_batch and batches.meta use, and no more.
_INSTRUCTIONS = frozenset(
    {
        *("PROTO", "STOP", "MARK", "NONE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING"),
        *("EMPTY_DICT", "SETITEMS", "EMPTY_LIST", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("BINPUT", "LONG_BINPUT", "GLOBAL", "REDUCE", "BUILD"),
    }
)


def parse_pickle(content: bytes, *, name: str) -> Any:
    """What a pickle in CIFAR10's format holds (strings as bytes), or a `DataError` if it asks for anything else."""
    try:
        _inspect(content)
        found = _Reader(content).load()
    except DataError as error:
        raise DataError(f"{name} is refused: {error}") from error
    except Exception as error:  # a malformed pickle can raise nearly anything
        raise DataError(f"{name} is not a pickle in CIFAR10's format: {error}") from error
    return _arrays(found)


def _inspect(content: bytes) -> None:
    stop = None
    for count, (instruction, argument, position) in enumerate(pickletools.genops(content)):
        if instruction.name not in _INSTRUCTIONS:
            raise DataError(f"its pickle has the instruction {instruction.name}, which has no place there")
        if instruction.name in ("BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            # The place in the memo is allocated up to this number, whatever it is.
            raise DataError(f"its pickle puts away object {argument} after {count} instructions")
        stop = position
    if stop != len(content) - 1:
        raise DataError("there are bytes after the end of its pickle")


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        array, element = _ArrayName(), _TypeName()
        self._known: dict[tuple[str, str], object] = {
            ("numpy", "ndarray"): array,
            ("numpy", "dtype"): element,
            ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(array),
        }

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name, or an error: nothing is imported."""
        try:
            return self._known[module, name]
        except KeyError:
            raise DataError(f"its pickle asks for {module}.{name}") from None

    def persistent_load(self, pid: Any) -> NoReturn:
        """Refuse: nothing is stored elsewhere."""
        raise DataError("its pickle refers to an object outside")


class _StandIn:
    """Something that the pickle may name but not change."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise DataError(f"a pickle of CIFAR10 does not set {type(self).__name__} to anything")


class _ArrayName(_StandIn):
    __slots__ = ()


class _TypeName(_StandIn):
    __slots__ = ()

    def __call__(self, *arguments: object) -> _ByteType:
        if arguments != (b"u1", 0, 1):
            raise DataError(f"the elements of an array of CIFAR10 are bytes, got {arguments!r}")
        return _ByteType()


class _ByteType(_StandIn):
    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        if state != (3, b"|", None, None, None, -1, -1, 0):
            raise DataError(f"the elements of an array of CIFAR10 are plain bytes, got {state!r}")


class _Reconstruct(_StandIn):
    __slots__ = ("_array",)

    def __init__(self, array: _ArrayName) -> None:
        self._array = array

    def __call__(self, *arguments: object) -> _Array:
        if len(arguments) != 3 or arguments[0] is not self._array or arguments[1:] != ((0,), b"b"):
            raise DataError("an array of CIFAR10 begins as an empty NumPy array")
        return _Array()


class _Array(_StandIn):
    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content: npt.NDArray[np.uint8] | None = None

    def __setstate__(self, state: object) -> None:
        match state:
            case (1, (int() as rows, int() as columns), _ByteType(), False, bytes() as content):
                if min(rows, columns) < 0 or math.prod((rows, columns)) != len(content):
                    raise DataError(f"an array of {rows} × {columns} bytes has {len(content):,} bytes")
                self.content = np.frombuffer(content, dtype=np.uint8).reshape(rows, columns)
            case _:
                raise DataError("an array of CIFAR10 is of bytes, in rows and columns, row by row")


def _arrays(found: Any) -> Any:
    """The pickle's dictionary with NumPy arrays in place of their stand-ins."""
    if not isinstance(found, dict):
        return found
    return {key: value.content if isinstance(value, _Array) else value for key, value in found.items()}

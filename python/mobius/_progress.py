"""Progress of long work: a callback, or tqdm's bar where tqdm is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from mobius._arguments import found, integer, refuse
from mobius._errors import InvalidArgumentError

Progress = Callable[[int, int], None]


@contextlib.contextmanager
def progress_of(progress: bool | Progress | None, name: str) -> Iterator[Progress | None]:
    """None: a bar on a terminal; True: a bar; False: nothing; a function is called with the bytes written so far and their total."""
    if callable(progress) and not isinstance(progress, type):
        yield progress
        return
    if progress is not None and not isinstance(progress, bool):
        raise refuse("progress", progress, "True, False, None or a function of (done, total)")
    tqdm = _tqdm() if progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()) else None
    if tqdm is None:
        yield None
        return
    with tqdm(total=0, unit="B", unit_scale=True, unit_divisor=1024, desc=name) as bar:

        def tell(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield tell


def _tqdm():
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


def size_of(size: int | str) -> int:
    """A number of bytes, or a text: "5GB", "500MB"."""
    if not isinstance(size, str):
        return integer("max_shard_size", size, 0, "a number of bytes, or for instance 5GB")
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
    text = size.strip().upper()
    number = text.rstrip("KMGTIB")
    try:
        return integer("max_shard_size", int(float(number) * units[text[len(number):]]), 0)
    except (KeyError, ValueError, OverflowError):
        raise InvalidArgumentError(f"max_shard_size is {found(size)}, expected a number of bytes, or for instance 5GB") from None

"""Messages of the native part, as Python's: what it tells goes to logging, what it warns of to warnings."""

from __future__ import annotations

from mobius import _native

TRACE = "[EP Trace] "
# The trace of the optimisation, and everything else.
TRACE_LOGGER, LOGGER = "mobius._optimizations", "mobius"


def _write(level: int, line: str) -> None:
    if level >= 2:
        warn(line)
        return
    import logging

    logger = logging.getLogger(TRACE_LOGGER if line.startswith(TRACE) else LOGGER)
    logger.log(logging.INFO if level == 1 else logging.DEBUG, "%s", line)


def warn(line: str) -> None:
    """A UserWarning at the line outside of this package that called it."""
    import sys
    import warnings

    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "mobius":
        frame, level = frame.f_back, level + 1
    warnings.warn(line, UserWarning, stacklevel=level)


_native.log_to(_write)

"""What goes wrong, as exceptions: each is an Error and the exception that Python itself would raise."""

from __future__ import annotations


class Error(Exception):
    """Any error of mobius. The message says what was found, what was expected, and where."""


class InvalidArgumentError(Error, ValueError):
    """A value of the caller is outside what is allowed; a tensor is missing, unknown or has another shape."""


class CorruptFileError(Error, ValueError):
    """A file contradicts its own format."""


class NotFoundError(Error, FileNotFoundError, KeyError):
    """A file, model, tensor or name does not exist."""

    __str__ = Exception.__str__


class UnsupportedError(Error, NotImplementedError):
    """Understood, and refused by name."""


class InputOutputError(Error, OSError):
    """The operating system said no."""


class InternalError(Error, RuntimeError):
    """A defect of mobius."""

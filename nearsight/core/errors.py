"""Distinguish the errors that a user can cause from bugs in nearsight."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake that the user can correct: wrong input, a missing file, an unknown name.

    The message says what is wrong, where it is wrong, and what to do about it, in that order. It
    begins with a lower-case letter unless its first word is a name or an option, because the
    command line prints it after ``nearsight: ``, without a traceback. Every other exception is a
    bug in nearsight and keeps its traceback.
    """

"""The error that a user can cause, told apart from a mistake of ours."""

from __future__ import annotations


class UserError(ValueError):
    """Something that the user can put right: wrong input, a missing file, an unknown name.

    The message says what is wrong, where, and what to do about it. The command line prints it
    without a traceback; every other exception is a bug and keeps its traceback.
    """

"""Whose code runs: the lines of the stack, or of an error's traceback, that are the user's."""

import os
import sys
import traceback
import warnings

import jax
import numpy as np

_FOLDERS = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
_FOLDERS += [os.path.dirname(os.path.abspath(str(library.__file__))) for library in (jax, np)]
_OTHERS = (*(folder + os.sep for folder in _FOLDERS), "<torchlike")  # this package, jax, numpy, generated functions
JAX_NOTE = "JAX has removed its internal frames"  # of jax's remark below the message of an error


def is_users(filename):
    """Whether a file is neither this package's nor of a library below it."""
    return not filename.startswith(_OTHERS)


def user_frame():
    """The innermost frame of the user's; None if there is none."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def warn(message, category=UserWarning):
    """``warnings.warn`` at the user's line, however many calls of this package are between."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def user_line():
    """The user's line that made the current call, as "file:line"."""
    frame = user_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_stack():
    """The user's lines of the current stack, formatted."""
    return traceback.format_list([f for f in traceback.extract_stack(sys._getframe(1)) if is_users(f.filename)])


def user_frames(error):
    """The user's lines on the way to where ``error`` was raised, as a list of FrameSummary."""
    return [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]

"""Errors of a notebook's cells under the alias have the user's own frames: IPython shows them itself."""

import sys
import threading
import types

import pytest

import torchlike as torch
from torchlike.interop import tracebacks


class Shell:
    """What is asked of IPython's shell."""

    def __init__(self):
        self.custom_exceptions, self.handler, self.shown = (), None, []

    def set_custom_exc(self, kinds, handler):
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, error, tb_offset=None):
        trace, names = error[2], []
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        self.shown.append((error[0], names))

    def run(self, cell):
        try:
            cell()
        except self.custom_exceptions:
            self.handler(self, *sys.exc_info(), tb_offset=None)


@pytest.fixture
def shell(monkeypatch):
    shell, module = Shell(), types.ModuleType("IPython")
    module.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    yield shell
    tracebacks.uninstall()


def cell():
    torch.ones(2) @ torch.ones(3)


def test_a_cell_shows_its_own_frames(shell, monkeypatch):
    tracebacks.install()
    shell.run(cell)
    monkeypatch.setenv("TORCHLIKE_TRACEBACK", "full")
    shell.run(cell)
    (short, full) = shell.shown
    assert short == (RuntimeError, ["run", "cell"])
    assert full[0] is RuntimeError
    assert len(full[1]) > 2


def test_an_interrupted_cell(shell):
    def cell():
        raise KeyboardInterrupt

    tracebacks.install()
    shell.run(cell)
    assert shell.shown == [(KeyboardInterrupt, ["run", "cell"])]


def test_what_the_user_has_installed_stays(shell):
    shell.set_custom_exc((OSError,), print)
    tracebacks.install()
    assert (shell.custom_exceptions, shell.handler) == ((OSError,), print)
    tracebacks.uninstall()
    assert (shell.custom_exceptions, shell.handler) == ((OSError,), print)


def test_uninstalled(shell):
    tracebacks.install()
    tracebacks.uninstall()
    assert (shell.custom_exceptions, shell.handler) == ((), None)


def test_ipython_without_a_shell(shell, monkeypatch):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    tracebacks.install()
    assert shell.handler is None

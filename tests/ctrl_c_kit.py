"""A dataset for workers that are interrupted early; it imports nothing that would take them long."""

import os
import signal


class Interrupted:
    """Its process gets a Ctrl-C where it is unpickled; samples tell what another one would do."""

    def __getstate__(self):
        return True

    def __setstate__(self, _):
        os.kill(os.getpid(), signal.SIGINT)

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return [i, signal.getsignal(signal.SIGINT).name, signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())]

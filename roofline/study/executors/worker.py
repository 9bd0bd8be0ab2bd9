"""A process that computes chunks: asked on its standard input, it answers on its standard output.

It ends when its input does, and so does not outlive the sweep that started it, however that ends.
"""

import os
import pickle
import signal
import sys
from typing import Final

from roofline.study.executors.base import attempt

START: Final = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from roofline.study.executors.worker import serve
serve()
"""
"""What the interpreter of a worker runs."""


def serve() -> None:
    """Read the work, then chunks; answer each with what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which ends its workers
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the work prints is no answer
        try:
            work = pickle.load(sys.stdin.buffer)
            while True:
                chunk = pickle.load(sys.stdin.buffer)
                pickle.dump(attempt(work, chunk), answers, pickle.HIGHEST_PROTOCOL)
                answers.flush()
        except (EOFError, BrokenPipeError):
            os._exit(0)  # nobody listens

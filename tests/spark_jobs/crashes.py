"""A module that crashes the interpreter which imports it."""

import os
import resource
import signal

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.kill(os.getpid(), signal.SIGSEGV)

"""``python -m sfumato`` and ``sfumato``: the command line.

Until a command begins, Ctrl-C ends the process at once: libraries are still being imported, and an
exception in the middle of that shows unreadable tracebacks.
"""

import gc
import os
import signal
import sys
from typing import Any, NoReturn


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else a shell ignores it
        signal.signal(signal.SIGINT, _leave_at_once)
    gc.set_threshold(100_000)  # imports make many objects, and all of them stay
    from sfumato.cli.main import app

    app(prog_name="sfumato")


def _leave_at_once(*_: Any) -> NoReturn:
    sys.stderr.write("sfumato: interrupted; nothing was charged and no output was written.\n")
    sys.stderr.flush()
    os._exit(130)


if __name__ == "__main__":
    main()

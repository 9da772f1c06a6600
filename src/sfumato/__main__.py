"""``python -m sfumato`` and ``sfumato``: the command line.

Until a command begins, Ctrl-C ends the process at once: libraries are still being imported, and an
exception in the middle of that shows unreadable tracebacks.
"""

import gc
import os
import signal
from typing import Any, NoReturn


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else a shell ignores it
        signal.signal(signal.SIGINT, _leave_at_once)
    gc.disable()  # until a command is imported: none of its many objects is garbage
    from sfumato.cli.main import app

    app(prog_name="sfumato")


def _leave_at_once(*_: Any) -> NoReturn:
    os.write(2, b"sfumato: interrupted; nothing was charged and no output was written.\n")
    os._exit(130)


if __name__ == "__main__":
    main()

"""The notice that this process must end soon: SIGTERM, as clusters send it before they take a machine away."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Never


class Notice:
    """Whether SIGTERM has arrived. A program that handles the signal itself is left alone."""

    def __init__(self) -> None:
        self.has_come = False

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """Take SIGTERM inside the context, instead of ending at once."""
        is_ours = threading.current_thread() is threading.main_thread()
        if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "has_come", True))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def obey(self) -> Never:
        """End this process as the signal would have."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
        raise SystemExit(128 + signal.SIGTERM)  # Where the signal is blocked.

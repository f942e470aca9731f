"""The browser in which a command that runs a server opens its page."""

import os
import sys
import webbrowser


def open_page(address: str) -> None:
    """Open an address, if there is a screen."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
        webbrowser.open(address)

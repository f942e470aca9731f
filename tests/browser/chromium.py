"""A headless Chromium, driven by its own protocol over two pipes: no driver program, no further package."""

import json
import os
import shutil
import subprocess
import sys
import time

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Keeps what a page complains of, to be run before its own scripts.
FAULTS = (
    "window.faults = []; addEventListener('error', event => faults.push(event.message));"
    "addEventListener('securitypolicyviolation', event => faults.push(event.blockedURI));"
)
# Puts the pipes where the browser looks for them, by way of numbers that are neither.
_EXEC = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Chromium:
    """One window with one page.

    Source: Chrome DevTools Protocol; with `--remote-debugging-pipe` messages end in NUL, on descriptors 3 and 4.
    """

    def __init__(self, folder, width=1500, height=1600):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        # Nothing but this machine is asked, whatever the browser wants to update or report.
        flags += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-background-networking"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        flags += [f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank"]
        command = [sys.executable, "-c", _EXEC, str(to_read), str(to_write), str(BINARY), *flags]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(to_read, to_write), **silent)
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._count, self._session = b"", 0, None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._to)
        os.close(self._from)

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def open(self, address):
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)

    def before_pages(self, script):
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def text(self):
        return self.evaluate("document.body ? document.body.innerText : ''")

    def evaluate(self, expression):
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, *texts, seconds=90):
        return self.wait(lambda: all(text in self.text() for text in texts), f"{texts}", seconds)

    def wait(self, condition, what, seconds=90):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not on the page after {seconds} s: {what}; there is:\n{self.text()}"
            time.sleep(0.3)
        return self.text()

    def _call(self, method, **params):
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next_message(self):
        while b"\0" not in self._buffer:
            part = os.read(self._from, 1 << 16)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

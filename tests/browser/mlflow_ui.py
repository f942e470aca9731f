"""`hpo ui` as a child process, and what a person reads off its tables."""

import json
import subprocess
import urllib.error
import urllib.request

from tests.faults.driver import start
from tests.faults.mlflow_server import free_port

# The assistant opens by itself over the page at the first visit.
NO_ASSISTANT = """
localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false');
localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true');
"""
# What lies within the window, and under nothing else.
_SEEN = """(element => {
    const box = element.getBoundingClientRect();
    const [x, y] = [box.left + Math.min(12, box.width / 2), box.top + box.height / 2];
    return x > 0 && y > 0 && x < innerWidth && y < innerHeight && element.contains(document.elementFromPoint(x, y));
})"""


class Ui:
    """`hpo ui` with these arguments, in a folder; `pages` are its addresses by what it calls them, the first as ''."""

    def __init__(self, folder, *arguments, lines=1):
        self.port = free_port()
        command = ("ui", "--port", str(self.port), "--no-browser", *arguments)
        # What the server says of its requests is for nobody.
        self._process = start(*command, cwd=folder, stderr=subprocess.DEVNULL)
        said = [self._process.stdout.readline().strip().rpartition("http") for _ in range(lines)]
        self.pages = {what.rstrip(": "): f"http{rest}" for what, _, rest in said}
        self.address = self.pages.get("", "")
        self.base = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def status(self, host):
        """Return the HTTP status of the front page under a host name; None while nothing answers."""
        request = urllib.request.Request(self.base, headers={"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


def heads(browser):
    """Return the names of the columns that are seen, from left to right."""
    found = f"[...document.querySelectorAll('[role=columnheader][col-id]')].filter({_SEEN})"
    placed = browser.evaluate(f"{found}.map(e => [e.getBoundingClientRect().left, e.innerText.trim()])")
    return [name for _, name in sorted(placed) if name]


def row(browser, number):
    """Return what is seen of a row of a table, by the names of the columns."""
    named = "new Map([...document.querySelectorAll('[role=columnheader][col-id]')].map(e => "
    named += "[e.getAttribute('col-id'), e.innerText.trim()]))"
    cells = f"[...document.querySelectorAll('[row-index={json.dumps(str(number))}] [role=gridcell]')].filter({_SEEN})"
    return browser.evaluate(
        f"(() => {{ const named = {named};"
        f"return Object.fromEntries({cells}.map(e => [named.get(e.getAttribute('col-id')), e.innerText.trim()])) }})()"
    )


def color(browser, number):
    """Return the color beside a run's name."""
    return browser.evaluate(
        f"""(() => {{ const cell = document.querySelector('[row-index="{number}"] [col-id="attributes.`Run Name`"]');
        const dots = [...cell.querySelectorAll('*')].map(e => getComputedStyle(e).backgroundColor);
        return dots.find(color => color !== 'rgba(0, 0, 0, 0)') }})()"""
    )

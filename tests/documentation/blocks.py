"""The code blocks of a page, and their results when somebody follows the page.

```bash                 is run; `exit=2` says how it must end
```console              needs what a test has not: a cluster, a browser, another study
```python               is run: the blocks between two commands are one script
```python title="x.py"  is written into that file, as is YAML
```text                 after a command or script: lines of what it printed; numbers and times may differ
"""

import itertools
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.studies import REPOSITORY, environment

PAGES = [Path("README.md"), *sorted(path.relative_to(REPOSITORY) for path in (REPOSITORY / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    file: str | None
    code: int

    def commands(self):
        if self.language not in ("bash", "console"):
            return
        for line in self.body.splitlines():
            words = [word for word in shlex.split(line, comments=True) if not re.match("[A-Z_]+=", word)]
            for follows, part in itertools.groupby(words, lambda word: word in ("&&", "|")):
                program, *rest = part
                if not follows and program == "hpo":
                    yield rest


def blocks_of(page):
    found = []
    for match in FENCE.finditer((REPOSITORY / page).read_text()):
        title = re.search(r'title="([^"]*)"', match["options"])
        file = title[1] if title and re.fullmatch(r"[\w./]+\.\w+", title[1]) else None
        code = re.search(r"exit=(\d+)", match["options"])
        found.append(Block(match["language"], match["body"], file, int(code[1]) if code else 0))
    return found


def follow(page):
    """Run the blocks of a page in the working directory; AssertionError where one does not what the page says."""
    printed = ""
    steps = [block for block in blocks_of(page) if block.language in ("bash", "python", "yaml", "toml", "text")]
    for kind, group in itertools.groupby(steps, lambda block: "script" if _is_script(block) else block.language):
        blocks = list(group)
        if kind == "script":
            Path("page.py").write_text("\n".join(block.body for block in blocks))
            printed = _printed([sys.executable, "page.py"], 0)
        elif kind == "text":
            if printed:
                _compare(blocks[0].body, printed)
            printed = ""
        elif kind == "bash":
            printed = ""
            for block in blocks:
                # Without arguments it takes minutes; with shorter trainings it prints the same.
                commands = re.sub("^hpo search$", "hpo search training.epochs=2", block.body, flags=re.MULTILINE)
                printed += _printed(["bash", "-euc", commands], block.code)
        else:
            for block in blocks:
                if block.file:
                    Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                    Path(block.file).write_text(block.body)


def _is_script(block):
    return block.language == "python" and block.file is None


def _printed(command, code):
    own = environment() | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 600}
    done = subprocess.run(command, env=own, check=False, **options)
    assert done.returncode == code, f"{command[-1]}\n{done.stdout}"
    return done.stdout


def _compare(shown, printed):
    there = [_masked(line) for line in printed.splitlines()]
    for line in shown.splitlines():
        if line.strip() not in ("", "..."):
            assert any(_masked(line) in other for other in there), f"{line}\nis not in\n{printed}"


def _masked(line):
    line = re.sub(r"(?<!\w)-?\d[\d.,e+-]*|\d[\d.,e+-]*", "#", line)
    return re.sub(r"\s+", " ", re.sub(r"# (s|min|h)\b", "# time", line)).strip()

"""Draws the moving picture of README: what `hpo search` and `hpo test digits` print, in their own time, but faster.

`python docs/building/terminal.py` runs both in an empty folder (a minute or two) and writes docs/pictures/terminal.svg.
"""

import subprocess
import tempfile
import time
from html import escape
from pathlib import Path

PICTURE = Path(__file__).parents[1] / "pictures" / "terminal.svg"
COMMANDS = ("hpo search", "hpo test digits")
# Seconds that a command is drawn for, and that the finished picture is left to be read.
PLAYED, LEFT = 7.0, 6.0
LINE, WIDTH, MARGIN = 19, 1010, 20
INK = {"$": "#7ee787", "winner": "#ffa657", "report": "#8b949e", "next": "#8b949e"}


def recorded(command: str, folder: str) -> list[tuple[float, str]]:
    """Run a command and return its lines, each with the share of the whole time after which it came."""
    began = time.monotonic()
    with subprocess.Popen(command.split(), cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        lines = [(time.monotonic() - began, line.rstrip()) for line in running.stdout]
    whole = time.monotonic() - began
    return [(came / whole, line) for came, line in lines]


def drawn(lines: list[tuple[float, str]], seconds: float) -> str:
    """Return the picture of lines, each of which appears after so many seconds of the whole."""
    texts, frames = [], []
    for place, (came, line) in enumerate(lines):
        share = 100 * came / seconds
        frames.append(f"@keyframes l{place}{{0%,{share:.2f}%{{opacity:0}}{share + 0.01:.2f}%,100%{{opacity:1}}}}")
        ink = next((ink for start, ink in INK.items() if line.lstrip().startswith(start)), "#e6edf3")
        y = MARGIN + 12 + place * LINE
        texts.append(f'<text x="{MARGIN}" y="{y}" fill="{ink}" style="animation-name:l{place}">{escape(line)}</text>')
    height = 2 * MARGIN + len(lines) * LINE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{' and '.join(COMMANDS)}</title>",
            "<style>",
            "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;"
            f"animation:{seconds:.1f}s step-end infinite}}",
            "@media(prefers-reduced-motion:reduce){text{animation:none}}",
            *frames,
            "</style>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#0d1117"/>',
            *texts,
            "</svg>\n",
        ]
    )


def main() -> None:
    """Record and draw."""
    lines, clock = [], 0.5
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            lines.append((clock, f"$ {command}"))
            lines += [(clock + 0.5 + share * PLAYED, line) for share, line in recorded(command, folder)]
            clock += PLAYED + 1.5
    PICTURE.write_text(drawn(lines, clock + LEFT))


if __name__ == "__main__":
    main()

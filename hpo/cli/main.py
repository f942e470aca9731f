"""The entry point of `hpo`: finds the sub-command and turns faults into one line and an exit code.

Imports nothing heavy: the module of a command's function is imported when it is called, and the function imports what
trains or searches, so that every `--help` answers at once.
"""

import contextlib
import errno
import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from hpo import __version__
from hpo.cli.output import is_for_programs, json_alone, show_json
from hpo.errors import OUTPUT, HpoError, Interruption, nearest, printable
from hpo.session.program import is_ours, leave, named_output, take_over, wait_briefly_for_threads

# By what they are for, as `hpo --help` lists them: where the function of each is in `hpo.commands`, and its line there.
GROUPS = {
    "search and train": {
        "search": (
            "search:search_composed",
            "create a study, or continue it if it exists unchanged, and run it to its budget",
        ),
        "resume": ("resume:resume", "continue a study from its frozen configuration; a running one to a larger budget"),
        "extend": ("resume:extend", "train the best trials of a study further, or search on at a larger scale"),
        "compare": ("compare:compare", "which strategy is better at equal budget, and how sure that is"),
        "train": ("train:train_composed", "train one configuration, no search"),
        "scale": ("scale:scale", "see whether hyperparameters hold when a model grows"),
        "new": ("new:new", "write a module to train and its configuration, which run as they stand"),
        "cluster": ("new:cluster", "write what to submit to Slurm or Kubernetes, or to run on machines by ssh"),
    },
    "follow and steer": {
        "list": ("show:studies", "the studies under runs/: state, trials, best, strategy, data, size, date"),
        "show": ("show:show", "one study at a glance, or one of its trials"),
        "watch": (
            "watch:watch",
            "follow a running search in this terminal, or studies in a page that changes with them",
        ),
        "ui": ("serve:ui", "open the MLflow UI on this project's runs, on the loopback address"),
        "logs": ("show:logs", "what the trainings of a study printed"),
        "stop": ("steer:stop", "end a running search, at once or after its running trials; or one of its trials"),
        "add": ("steer:add", "let a running or stopped search try a point of your own next"),
        "retry": ("steer:retry", "let a running or stopped search try its failed trials again"),
    },
    "train elsewhere": {
        "ask": ("ask:ask", "a further trial of a study that is trained elsewhere, by whatever means"),
        "tell": ("ask:tell", "what came of a trial that was asked for"),
    },
    "results": {
        "report": ("report:report", "write report.html, report.md, report.json and trials.csv of a study"),
        "test": ("evaluation:evaluate", "open the test part, once, with the winner"),
        "reproduce": ("reproduce:reproduce", "train recorded trials again and compare"),
        "predict": ("trained_model:predict", "classify, tag, translate or continue texts with a trained model"),
        "attention": ("trained_model:attention", "draw what a trained model attends to while it reads a text"),
    },
    "keep": {
        "note": ("steer:note", "write beside a study what only a person knows, or tag it"),
        "clean": (
            "remove:clean",
            "free what no study needs: states, copies of data, models that are not among the best",
        ),
        "archive": ("archive:archive_or_restore", "write a study into one file with checksums, or take it out of one"),
        "remove": ("remove:remove", "delete studies, with their runs in MLflow"),
    },
    "exchange": {
        "sync": ("exchange:sync", "send what MLflow does not have yet of a study"),
        "export": ("exchange:export", "copy a study into another Optuna storage"),
        "import": (
            "exchange:import_trials",
            "take over the finished trials of a study made with Optuna or Ray Tune, or of a CSV file",
        ),
    },
}
COMMANDS = {name: says for group in GROUPS.values() for name, (_, says) in group.items()}
FUNCTIONS = {name: f"hpo.commands.{path}" for group in GROUPS.values() for name, (path, _) in group.items()}

# What installs the completion of words in a shell, and what its script asks.
_COMPLETION = ("--install-completion", "--complete")

# Of a word in an error: no path is longer, but a value that was typed may be, which would flood the terminal.
_LONGEST, _SHOWN = 500, 100
# What other programs call what a command does.
_ELSEWHERE = {
    **dict.fromkeys(("run", "tune", "sweep", "optimize", "optimise", "start", "launch"), "search"),
    **dict.fromkeys(("continue", "restart"), "resume"),
    **dict.fromkeys(("rerun", "retry-failed"), "retry"),
    **dict.fromkeys(("status", "info", "describe", "best", "view", "results"), "show"),
    **dict.fromkeys(("ls", "studies"), "list"),
    **dict.fromkeys(("delete", "rm", "del", "destroy"), "remove"),
    **dict.fromkeys(("kill", "cancel", "abort", "pause"), "stop"),
    **dict.fromkeys(("plot", "visualize", "summary", "figures"), "report"),
    "publish": "report --publish",
    **dict.fromkeys(("dashboard", "mlflow", "tensorboard"), "ui"),
    **dict.fromkeys(("monitor", "follow", "tail"), "watch"),
    **dict.fromkeys(("suggest", "sample"), "ask"),
    **dict.fromkeys(("observe", "submit"), "tell"),
    **dict.fromkeys(("evaluate", "eval"), "test"),
    **dict.fromkeys(("init", "create"), "new"),
    **dict.fromkeys(("enqueue", "enqueue-trial"), "add"),
    **dict.fromkeys(("backup", "pack", "zip"), "archive"),
    **dict.fromkeys(("upload", "push"), "sync"),
}

# These commands write state that only this user may read. Files of the others get the user's default permissions.
_PRIVATE = (
    *("search", "resume", "extend", "report", "reproduce", "test", "compare", "train", "scale", "sync", "import"),
    *("stop", "add", "retry", "ask", "tell", "note", "clean", "archive", "remove"),
)

_EXAMPLES = """examples:
  hpo search                                          the default study: a Transformer on handwritten digits
  hpo search strategy=shifting_window study.name=windows study.trials=24
  hpo search data=text_classification data.path=reviews.csv model.num_layers=3
  hpo search --cfg job                                print the configuration, run nothing
  hpo resume digits study.trials=40                   go on, with a larger budget
  hpo train --config runs/digits/best.yaml            train the winner alone
  hpo test digits && hpo ui

exit codes: 0 done; 1 it ran and the answer is no; 2 the input is wrong; 130 interrupted, to be resumed
`--json` after a command prints its result, or its error, as one JSON object
`hpo COMMAND --help` tells more; `--debug` after a command shows the traceback of a fault
`hpo --install-completion [bash|zsh|fish]` lets TAB complete commands, options, studies, configurations and keys"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; None = that of this process, which is then `hpo` itself.

    Another program's process is never ended here: after a signal it gets a KeyboardInterrupt, usually an Interruption.
    """
    if arguments is None:
        take_over()
        sys.stdout = named_output(sys.stdout)
    given = list(sys.argv[1:] if arguments is None else arguments)
    umask = os.umask(0o077)
    os.umask(0o077 if given and given[0] in _PRIVATE else umask)
    # A terminal may not be able to show every character of a name.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings, logger = _Warnings(), logging.getLogger("hpo")
    logger.addHandler(warnings)
    # SIGTERM and SIGHUP end a command as Ctrl-C does, unless another handler is set (as by `nohup`). Ctrl-C is handled,
    # too, to distinguish it from a KeyboardInterrupt that a user's code raises.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    ours = [number for number in before if before[number] in (signal.SIG_DFL, signal.default_int_handler)]
    out, printing, code = sys.stdout, contextlib.ExitStack(), 0
    try:
        # Also where it is shortened, as argparse allows.
        if given[:1] != ["--complete"] and any(word.startswith("--j") and "--json".startswith(word) for word in given):
            printing.enter_context(json_alone())
        for number in ours:
            signal.signal(number, _end)
        code = _run(given)
        if out is not None:
            # Here, where a closed pipe is still handled without a traceback.
            out.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has ended, as with `| head`: nothing is left to print or to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename == OUTPUT:
            # What is left in its buffers cannot be written either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            if code:
                # It has said so already.
                return code
        elif error.errno != errno.ENOSPC or error.filename is not None:
            raise
        return _fault(f"{error.filename or 'a file'}: {error.strerror}; make room, or write it elsewhere", 1)
    finally:
        printing.close()
        for number in ours:
            signal.signal(number, before[number])
        logger.removeHandler(warnings)
        os.umask(umask)
        if arguments is None:
            wait_briefly_for_threads()


def _end(number: int, _frame: FrameType | None) -> None:
    raise Interruption(number)


class _Warnings(logging.Handler):
    """Prints what `hpo` logs on standard error, in lines that begin with `warning:`."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"warning: {printable(record.getMessage())}", file=sys.stderr)


def _run(given: list[str]) -> int:
    try:
        # Python decodes arguments by the locale, which may not be UTF-8.
        given = [argument.encode(errors="surrogateescape").decode() for argument in given]
    except UnicodeDecodeError as error:
        return _fault(f"command line: {error.object!r} is not UTF-8; give it in UTF-8")
    if not given or given[0] in ("-h", "--help", "help") or given[:2] == ["--install-completion", "--help"]:
        print(usage())
        return 0 if given else 2
    if given[0] == "--version":
        print(f"hpo {__version__}")
        return 0
    if given[0] not in COMMANDS and given[0] not in _COMPLETION:
        meant = _ELSEWHERE.get(given[0].lower())
        hint = f"; `hpo {meant}` does that: {COMMANDS[meant.split()[0]]}" if meant else nearest(given[0], COMMANDS)
        return _fault(f"command: must be one of {', '.join(COMMANDS)}, given '{given[0]}'{hint}")
    try:
        Path.cwd()
    except FileNotFoundError:
        return _fault("working directory: it was deleted; go to another (cd)")
    debug = "--debug" in given
    try:
        return _call(given[0], given[1:])
    except HpoError as error:
        if debug:
            raise
        return _fault(str(error), error.exit_code)
    except KeyboardInterrupt as interrupt:
        code, says = 128 + getattr(interrupt, "number", signal.SIGINT), getattr(interrupt, "says", "")
        if says:
            sys.stderr.write(says)
        if not is_ours():
            raise
        show_json({"error": "; ".join(filter(None, says.split("\n"))) or "interrupted", "exit_code": code})
        if says:
            # A search is closed. Threads of Ray's start, or of an objective, must not keep the process alive.
            leave(code)
        return code
    except OSError as error:
        if debug or error.filename in (None, OUTPUT):
            raise
        # Faults without a message of their own, such as a folder instead of a file, or one that cannot be entered.
        place, is_input = error.filename2 or error.filename, isinstance(error, FileNotFoundError | NotADirectoryError)
        return _fault(f"{place}: {error.strerror}; check what is there (--debug shows where)", 2 if is_input else 1)
    except SystemExit as leaving:
        # After `--help`.
        return int(leaving.code or 0)


def _call(name: str, words: Sequence[str]) -> int:
    """Call the function of a command, print its result, and return the exit code."""
    if name in _COMPLETION:
        from hpo.cli.completion import answers, install

        shell, *typed = words or [""]
        is_install = name == "--install-completion"
        for line in [install(shell)] if is_install else answers(shell, typed, COMMANDS, function_of):
            print(line)
        return 0
    from hpo.cli.parser import parse

    function = function_of(name)
    result = function(**parse(name, function, words))
    with contextlib.closing(result) if hasattr(result, "close") else contextlib.nullcontext():
        if is_for_programs() and hasattr(result, "views"):
            for each in result.views():
                show_json(each.to_dict())
        else:
            _show(result)
        return int(result.wait() if hasattr(result, "wait") else getattr(result, "exit_code", 0))


def _show(result: Any) -> None:
    if hasattr(result, "show"):
        result.show()
    elif text := str(result):
        print(text, flush=True)
    if is_for_programs():
        show_json(result.to_dict())


def function_of(name: str) -> Callable[..., Any]:
    """Return the function of a command, whose module is imported now."""
    module, _, function = FUNCTIONS[name].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def usage() -> str:
    """Return the text of `hpo --help`."""
    lines = ["usage: hpo COMMAND [...]", "", "Hyperparameter search and experiment management for Transformers.", ""]
    for group, commands in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:<11}{what}" for name, (_, what) in commands.items()), ""]
    return "\n".join([*lines, _EXAMPLES])


def _fault(text: str, code: int = 2) -> int:
    from hpo.config.secrets import hide_secrets

    words = hide_secrets(text, {}).split()
    text = printable(" ".join(f"{word[:_SHOWN]}...{word[-1:]}" if len(word) > _LONGEST else word for word in words))
    print(f"error: {text}", file=sys.stderr)
    show_json({"error": text, "exit_code": code})
    return code


if __name__ == "__main__":
    sys.exit(main())

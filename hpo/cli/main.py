"""The entry point of `hpo`: runs a command, and turns errors into one line and an exit code.

So that `--help` answers at once, this module imports no slow library. It imports a command's module only to run the
command, or for the shell completion of the command's arguments. The command's function imports the libraries that train
or search.
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

# The commands by purpose, in the order of `hpo --help`: the function in `hpo.commands`, and the help line.
GROUPS = {
    "search and train": {
        "search": (
            "search:search_composed",
            "run a search in a new study, or continue the study of this name, until the budget is used up",
        ),
        "resume": (
            "resume:resume",
            "continue a study from its frozen configuration, or raise the budget of a running study",
        ),
        "extend": (
            "resume:extend",
            "train the best trials of a study longer or with other settings, or search at a larger scale",
        ),
        "compare": (
            "compare:compare",
            "compare strategies by repeated searches at equal budgets, or compare existing studies",
        ),
        "train": ("train:train_composed", "train one configuration, without a search"),
        "scale": ("scale:scale", "check whether good hyperparameters stay good when a model grows"),
        "new": ("new:new", "write a training module and its configuration: a working example to adapt"),
        "cluster": ("new:cluster", "write the job that runs a search on Slurm, Kubernetes, or machines reached by ssh"),
    },
    "follow and steer": {
        "list": (
            "show:studies",
            "list the studies under runs/ with state, trials, best score, strategy, data, size and date",
        ),
        "show": ("show:show", "show a study, or one of its trials"),
        "watch": ("watch:watch", "follow a running search in this terminal, or studies in a live page"),
        "ui": ("serve:ui", "open the MLflow UI on this project's runs, on the loopback address"),
        "logs": ("show:logs", "show the output of a study's trainings"),
        "stop": (
            "steer:stop",
            "end a running search at once or after its running trials have ended, or stop one trial",
        ),
        "add": ("steer:add", "add a point of your own to a running or stopped search"),
        "retry": ("steer:retry", "retry the failed trials of a running or stopped search"),
    },
    "train elsewhere": {
        "ask": ("ask:ask", "get the next trial to train outside of hpo"),
        "tell": ("ask:tell", "report the result of a trial that was trained outside of hpo"),
    },
    "results": {
        "report": ("report:report", "write report.html, report.md, report.json and trials.csv of a study"),
        "test": ("evaluation:evaluate", "score the winner on the test split, once"),
        "reproduce": ("reproduce:reproduce", "train recorded trials again and compare the scores"),
        "predict": ("trained_model:predict", "classify, tag, translate or continue texts with a trained model"),
        "attention": ("trained_model:attention", "draw the attention weights of a trained model for one text"),
    },
    "keep": {
        "note": ("steer:note", "add a note or tags to a study"),
        "clean": (
            "remove:clean",
            "delete files that no study needs: training states, copies of data, models of trials that are not the best",
        ),
        "archive": ("archive:archive_or_restore", "write a study into one file with checksums, or restore such a file"),
        "remove": ("remove:remove", "delete studies, with their runs in MLflow"),
    },
    "exchange": {
        "sync": ("exchange:sync", "send a study's missing trials and files to MLflow"),
        "export": ("exchange:export", "copy a study into another Optuna storage"),
        "import": (
            "exchange:import_trials",
            "import the finished trials of a study made with Optuna or Ray Tune, or of a CSV file",
        ),
    },
}
COMMANDS = {name: line for group in GROUPS.values() for name, (_, line) in group.items()}
FUNCTIONS = {name: f"hpo.commands.{path}" for group in GROUPS.values() for name, (path, _) in group.items()}

# The option that installs completion in a shell, and the option that the installed script calls at each TAB.
_COMPLETION = ("--install-completion", "--complete")

# A word of an error message with more characters than the first number is cut to the second number.
_MAX_WORD_LENGTH, _NUM_CHARACTERS = 500, 100
# Names from other programs, each with our command for it. An error about an unknown command suggests that command.
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

# Only this user can read the files that these commands write.
# Files of other commands get the user's default permissions.
_PRIVATE = (
    *("search", "resume", "extend", "report", "reproduce", "test", "compare", "train", "scale", "sync", "import"),
    *("stop", "add", "retry", "ask", "tell", "note", "clean", "archive", "remove"),
)

_EXAMPLES = """examples:
  hpo search                                          the default study: a Transformer on handwritten digits
  hpo search strategy=shifting_window study.name=windows study.trials=24
  hpo search data=text_classification data.path=reviews.csv model.num_layers=3
  hpo search --cfg job                                print the configuration, run nothing
  hpo resume digits study.trials=40                   continue, with a larger budget
  hpo train --config runs/digits/best.yaml            train only the winner
  hpo test digits && hpo ui

exit codes: 0 success; 1 failure, no result, or a difference found; 2 wrong input; 130 interrupted, and can be resumed
`--json` after a command prints its result, or its error, as one JSON object
`hpo COMMAND --help` describes a command; `--debug` after a command shows the traceback of an error
`hpo --install-completion [bash|zsh|fish]` lets TAB complete commands, options, studies, configurations and keys"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    If `arguments` is None, run the command line of this process, which is the program `hpo` itself.

    If `arguments` is given, the caller is another program. A signal then raises KeyboardInterrupt (usually its subclass
    Interruption) in the caller, and never ends the process.
    """
    if arguments is None:
        take_over()
        sys.stdout = named_output(sys.stdout)
    given = list(sys.argv[1:] if arguments is None else arguments)
    umask = os.umask(0o077)
    os.umask(0o077 if given and given[0] in _PRIVATE else umask)
    # Some terminals cannot show every character of a name.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings, logger = _Warnings(), logging.getLogger("hpo")
    logger.addHandler(warnings)
    # SIGTERM and SIGHUP end a command as Ctrl-C does, unless another handler is set (as by `nohup`). Ctrl-C has a
    # handler, too, to distinguish it from a KeyboardInterrupt that a user's code raises.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    ours = [number for number in before if before[number] in (signal.SIG_DFL, signal.default_int_handler)]
    out, printing, code = sys.stdout, contextlib.ExitStack(), 0
    try:
        # argparse allows shortened options, such as --js.
        if given[:1] != ["--complete"] and any(word.startswith("--j") and "--json".startswith(word) for word in given):
            printing.enter_context(json_alone())
        for number in ours:
            signal.signal(number, _end)
        code = _run(given)
        if out is not None:
            # Flush inside the try block, because it handles a closed pipe.
            out.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has ended, as with `| head`. Python's flush at exit must not fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename == OUTPUT:
            # The rest of the buffer cannot be written, either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            if code:
                # The command has reported its error already.
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
    """Prints log records of `hpo` on standard error, in lines that begin with `warning:`."""

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
        known = _ELSEWHERE.get(given[0].lower())
        hint = f"; use `hpo {known}`: {COMMANDS[known.split()[0]]}" if known else nearest(given[0], COMMANDS)
        return _fault(f"command: must be one of {', '.join(COMMANDS)}, given '{given[0]}'{hint}")
    try:
        Path.cwd()
    except FileNotFoundError:
        return _fault("working directory: it was deleted; change to another (cd)")
    debug = "--debug" in given
    try:
        return _call(given[0], given[1:])
    except HpoError as error:
        if debug:
            raise
        return _fault(str(error), error.exit_code)
    except KeyboardInterrupt as interrupt:
        code, text = 128 + getattr(interrupt, "number", signal.SIGINT), getattr(interrupt, "says", "")
        if text:
            sys.stderr.write(text)
        if not is_ours():
            raise
        show_json({"error": "; ".join(filter(None, text.split("\n"))) or "interrupted", "exit_code": code})
        if text:
            # The search is closed. Threads of Ray, or of an objective, must not keep the process alive.
            leave(code)
        return code
    except OSError as error:
        if debug or error.filename in (None, OUTPUT):
            raise
        # No command handles this error. An example is a folder where a file is expected.
        place, is_input = error.filename2 or error.filename, isinstance(error, FileNotFoundError | NotADirectoryError)
        return _fault(f"{place}: {error.strerror}; check this path (--debug shows the traceback)", 2 if is_input else 1)
    except SystemExit as leaving:
        # argparse exits after it has printed `--help`.
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
    """Import the module of a command, and return the command's function."""
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
    words = [f"{word[:_NUM_CHARACTERS]}...{word[-1:]}" if len(word) > _MAX_WORD_LENGTH else word for word in words]
    text = printable(" ".join(words))
    print(f"error: {text}", file=sys.stderr)
    show_json({"error": text, "exit_code": code})
    return code


if __name__ == "__main__":
    sys.exit(main())

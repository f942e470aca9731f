"""Finds the files with a command's code: files that the command line names, and modules that `-m` runs."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from hpo.objectives.command_line import CommandLine, fill, placeholders

# Files with these suffixes are read by a command and never written. Other files may be results of an earlier run.
_PROGRAMS = (".py", ".sh", ".r", ".jl", ".pl", ".rb", ".js", ".lua", ".m")
_CONFIGS = (".yaml", ".yml", ".toml", ".ini", ".cfg")
# In Python, torchrun and Accelerate, the name of a module follows one of these options. Python also accepts `-um` and
# `-mNAME`.
_MODULE_OPTIONS = ("-m", "--module")
_COMBINED_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]*m(?P<name>\w[\w.]*)?")
_PATH = "PYTHONPATH"


def code_files(command: CommandLine) -> list[str]:
    """Return the scripts, modules, programs and configurations that a command uses.

    Leave out the command's first word if this word is a program that is installed outside of the working directory.
    """
    configs = {name for name in _named(command) if _is_file(name, _CONFIGS)}
    if command.file and Path(command.file).is_file():
        configs.add(command.file)
    return sorted(configs | _programs(command))


def notes_on_unseen(command: CommandLine) -> list[str]:
    """Return a note for the user if this machine cannot run the program, or if no file with its code is found.

    The search for the file looks for a program in the working directory, and for a module in the working directory and
    on PYTHONPATH. If no file is found, resume and reproduce do not notice that the program has changed.
    """
    if (missing := _missing_program(command)) is not None:
        return [f"command.line: {missing} on this machine, so trainings on this machine will fail"]
    programs = _programs(command)
    module = next((words[0] for words in _after_module_option(command.words) if words), None)
    # If the line has a Python script, `-m` does not name the user's module: after the script, `-m` is an option of the
    # script; before it, `-m` names the module of a launcher.
    if any(name.endswith(".py") for name in programs) or (programs and module is None):
        return []
    what, where = f"program {command.words[0]}", "not a file in the working directory"
    if module is not None:
        what, where = f"module {module}", f"neither in the working directory nor on {_PATH}"
    return [f"command.line: the {what} is {where}, so resume and reproduce do not notice its changes"]


def _missing_program(command: CommandLine) -> str | None:
    """Return a message if the command's program or script is missing on this machine; None = neither is missing."""
    program, *others = command.words
    if not placeholders(program) and shutil.which(fill(program, {})) is None:
        return f"{program} cannot be run"
    scripts = (word for word in others if Path(word).suffix.lower() in _PROGRAMS and not placeholders(word))
    script = next(scripts, None)
    return f"there is no file {script}" if script is not None and not _is_file(script) else None


def _programs(command: CommandLine) -> set[str]:
    """Return the paths of the programs and modules that the command runs.

    Leave out the command's first word if this word is an installed program.
    """
    named = {name for name in _named(command) if _is_file(name)}
    programs = {name for name in named if _is_file(name, _PROGRAMS) or os.access(name, os.X_OK)}
    # A folder with a __main__.py can be run too.
    programs |= {main for name in _named(command) if _is_file(main := f"{name}/__main__.py")}
    for words in _after_module_option(command.words):
        # Other options of a launcher may come before the name of the module.
        found = (_module_in(place, word) for word in words for place in _places(command))
        programs |= set(islice(filter(None, found), 1))
    return programs


def _named(command: CommandLine) -> set[str]:
    """Return the texts that may name files: the command's words, and the values of options such as `--data=a.csv`."""
    words = [fill(word, {}) for word in command.words if not placeholders(word)]
    named = {part for word in words for part in (word, word.partition("=")[2]) if part}
    program = Path(command.words[0])
    if program.is_absolute() and not program.is_relative_to(Path.cwd()):
        named.discard(command.words[0])
    return named


def _places(command: CommandLine) -> list[Path]:
    """Return the folders with the user's Python modules: the working directory, and the entries of PYTHONPATH."""
    given = [word.removeprefix(f"{_PATH}=") for word in command.words if word.startswith(f"{_PATH}=")]
    entries = [entry for text in (*given, os.environ.get(_PATH, "")) for entry in text.split(os.pathsep) if entry]
    return list(dict.fromkeys([Path.cwd(), *(Path.cwd() / entry for entry in entries)]))


def _after_module_option(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """For each option that names a module, such as `-m`, yield all words after the option.

    Any of the yielded words may be the module's name, because other options may come before the name. If the option
    contains the name, as in `--module=NAME` and `-mNAME`, yield only the name.
    """
    for number, word in enumerate(words, start=1):
        option, _, name = word.partition("=")
        if option in _MODULE_OPTIONS:
            yield [name] if name else words[number:]
        elif (found := _COMBINED_OPTION.fullmatch(word)) and Path(words[0]).name.startswith("python"):
            yield [found["name"]] if found["name"] else words[number:]


def _module_in(place: Path, name: str) -> str | None:
    """Return the file in this folder that `python -m NAME` runs; None = the folder does not have the module."""
    path = name.replace(".", "/")
    files = (place / f"{path}/__main__.py", place / f"{path}.py")
    found = next((file for file in files if path and _is_file(file)), None)
    if found is None:
        return None
    return str(found.relative_to(Path.cwd()) if found.is_relative_to(Path.cwd()) else found)


def _is_file(path: Path | str, suffixes: Sequence[str] = ()) -> bool:
    try:
        return Path(path).is_file() and (not suffixes or Path(path).suffix.lower() in suffixes)
    except (OSError, ValueError):
        # The word is not a valid file name.
        return False

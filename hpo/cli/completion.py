"""Completion in bash, zsh and fish: a short script per shell, which calls `hpo --complete` at each TAB."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hpo.cli.described import Parameter, describe
from hpo.commands.arguments import EVERYWHERE
from hpo.errors import ConfigError, HpoError, nearest

Find = Callable[[str], Callable[..., Any]]

# If `hpo --complete` prints nothing, each script offers file names. After the = of a key the shell must not add a
# blank: the scripts of bash and zsh say so, and fish adds none.
SCRIPTS = {
    # Bash splits words at = and :. So the script passes the whole line, and gets only the text after the last = or :.
    "bash": """\
_hpo() {
    local IFS=$'\\n'
    COMPREPLY=($(hpo --complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o default -F _hpo hpo
""",
    "zsh": """\
#compdef hpo
_hpo() {
    local -a found keys
    found=("${(@f)$(hpo --complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    keys=("${(@M)found:#[^:]#=:*}") found=("${(@)found:#[^:]#=:*}")
    if [[ -n $found$keys ]]; then _describe hpo found -- keys -S ''; else _files; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _hpo "$@"; else compdef _hpo hpo; fi
""",
    "fish": """\
function __hpo_complete
    set -l before (commandline -opc)
    set -l found (hpo --complete fish $before[2..] (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c hpo -f -a '(__hpo_complete)'
""",
}
# For each shell: the environment variable with the parent folder, the default folder below ~, and the script's path
# inside this folder.
_PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/hpo"),
    "zsh": ("ZDOTDIR", "", ".zfunc/_hpo"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/hpo.fish"),
}
_NEEDS = {
    "bash": "; without the package bash-completion, add to ~/.bashrc: source {path}",
    "zsh": "; add to .zshrc: fpath=({folder} $fpath); autoload -Uz compinit; compinit",
    "fish": "",
}
# Matches a line `- group: choice` in the `defaults` list of a file in conf/.
_CHOICE = re.compile(r"^ *- (?:override )?/?([\w/]+)(?:@\S+)?: *(\w+)", re.MULTILINE)
_OPTIONS_OF_HPO = {
    "--help": "show all commands",
    "--version": "show the version",
    "--install-completion": "install TAB completion for bash, zsh or fish",
}


def install(shell: str) -> str:
    """Write the completion script of a shell, and return a message with the script's path and further steps.

    If `shell` is empty, use the shell in `$SHELL`. ConfigError if there is no script for the shell.
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SCRIPTS:
        whose = "given" if shell else "$SHELL is"
        raise ConfigError(
            f"--install-completion: must be one of {', '.join(SCRIPTS)}, {whose} {name!r}{nearest(name, SCRIPTS)}"
        )
    variable, folder, below = _PLACES[name]
    path = Path(os.environ.get(variable) or Path.home() / folder) / below
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPTS[name], encoding="utf-8")
    needs = _NEEDS[name].format(path=path, folder=path.parent)
    return f"wrote {path}; start a new {name} to use it{needs}"


def answers(shell: str, words: Sequence[str], commands: Mapping[str, str], find: Find) -> Iterator[str]:
    """Yield a line for each completion of the last word, in the format that the shell's completion script reads.

    For bash, `words` has one string: the command line up to the cursor.
    """
    if shell == "bash":
        line = words[0] if words else ""
        try:
            words = shlex.split(line)[1:]
        except ValueError:
            # The line ends inside quotes.
            return
        words = [*words, ""] if line[-1:].isspace() else words
    *before, begun = words or [""]
    cut = max(begun.rfind("="), begun.rfind(":")) + 1
    for word, description in _candidates(before, begun, commands, find):
        if word.startswith(begun):
            if shell == "bash":
                yield word[cut:]
            else:
                yield (
                    f"{word.replace(':', chr(92) + ':')}:{description}" if shell == "zsh" else f"{word}\t{description}"
                )


def _candidates(
    before: Sequence[str], begun: str, commands: Mapping[str, str], find: Find
) -> Iterator[tuple[str, str]]:
    """Yield each word that may follow `before`, with its description, even if it does not begin with `begun`."""
    if not before:
        yield from (_OPTIONS_OF_HPO if begun.startswith("-") else commands).items()
        return
    name, *given = before
    if name == "--install-completion":
        yield from ((shell, "") for shell in SCRIPTS)
    if name not in commands:
        return
    parameters = describe(find(name)).parameters
    options = {each.typed: each for each in parameters if each.is_option}
    bare, pending = _read(given, options)
    option, equals, _ = begun.partition("=")
    if pending is not None:
        yield from _values(pending, name, given)
    elif equals and option in options:
        yield from ((f"{option}={value}", description) for value, description in _values(options[option], name, given))
    elif begun.startswith("-"):
        yield from ((typed, each.description) for typed, each in options.items())
        yield from ((f"--{each}", description) for each, description in {"help": "show its help", **EVERYWHERE}.items())
    elif (word := _word_at(len(bare), parameters)) is not None:
        if parameters[0].metavar == "STUDY" and word.metavar in ("OVERRIDE", "KEY=VALUE"):
            yield from _of_study(bare[0], word, with_own=name == "extend")
        else:
            yield from _values(word, name, given)


def _read(given: Sequence[str], options: Mapping[str, Parameter]) -> tuple[list[str], Parameter | None]:
    """Return the positional words, and the last option if its value is still missing (else None)."""
    bare: list[str] = []
    pending = None
    for word in given:
        if pending is not None:
            pending = None
        elif word.startswith("-"):
            option = options.get(word)
            pending = option if option is not None and option.kind is not bool else None
        else:
            bare.append(word)
    return bare, pending


def _word_at(place: int, parameters: Sequence[Parameter]) -> Parameter | None:
    """Return the parameter for the positional word at this position, counted from 0; None if there is none."""
    for each in parameters:
        if not each.is_option:
            if place == 0 or each.is_many:
                return each
            place -= 1
    return None


def _values(given: Parameter, command: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the values that complete a word of a parameter, each with a description.

    If the parameter has choices, yield the choices. Otherwise, the metavar decides: STUDY and MODEL allow the studies
    under runs/. OVERRIDE allows `GROUP=NAME` for each configuration file, and `KEY=` for each configuration key.
    """
    if given.choices:
        yield from ((choice, given.description) for choice in given.choices)
        return
    # A word may be of several kinds: STUDY|OVERRIDE.
    kinds = given.metavar.split("|")
    if "STUDY" in kinds or "MODEL" in kinds:
        from hpo.study.files.folder import RUNS

        yield from ((path.parent.name, "study") for path in sorted(RUNS.glob("*/config.yaml")))
    if "OVERRIDE" in kinds:
        from hpo.config.shipped import shipped_dir

        own = [Path(folder) for option, folder in pairwise(words) if option == "--config-dir"]
        for folder in (shipped_dir(), *own):
            for path in sorted(folder.glob("*/**/*.yaml")):
                yield f"{path.parent.relative_to(folder)}={path.stem}", "configuration"
        yield from _keys("train" if command == "train" else "search", words, (shipped_dir(), *own))


def _keys(primary: str, words: Sequence[str], folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield `KEY=` and the comment of each configuration key.

    A word such as `data=translation` selects a configuration file whose keys are included.
    """
    from hpo.config.shipped import documented_keys

    typed = {key: value for key, _, value in (word.partition("=") for word in words)}
    whole = folders[0] / f"{primary}.yaml"
    chosen: dict[str, str] = dict(_CHOICE.findall(whole.read_text(encoding="utf-8")))
    objective = typed.get("objective", "")
    if "data" not in typed and ":" in objective:
        # A user's function does not have the keys of the toolkit's trainer.
        chosen = {group: name for group, name in chosen.items() if group not in ("data", "model", "training", "space")}
    elif "data" not in typed and (folders[0] / "data" / f"{objective}.yaml").is_file():
        typed["data"] = objective
    for group in ("data", "study"):
        # Files of these groups may override the choices of other groups.
        for path in _files(group, typed.get(group, chosen.get(group, "")), folders):
            chosen |= _CHOICE.findall(path.read_text(encoding="utf-8"))
    chosen |= {group: typed[group] for group in chosen if group in typed}
    files = [("", whole), *((group, path) for group, name in chosen.items() for path in _files(group, name, folders))]
    keys = {key: description for group, path in files for key, _, description in documented_keys(path, group)}
    yield from ((f"{key}=", description) for key, description in keys.items())


def _files(group: str, name: str, folders: Sequence[Path]) -> list[Path]:
    return [path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()]


def _of_study(name: str, given: Parameter, with_own: bool) -> Iterator[tuple[str, str]]:
    """Yield keys of an existing study, each with its value or range; yield nothing if the study cannot be read.

    For a point (KEY=VALUE), yield the searched keys; for an override, the keys that may still change. If `with_own`,
    an override may also change the objective's own keys.
    """
    from hpo.config.documents import read_yaml
    from hpo.config.keys import SEARCH_SECTIONS, flatten
    from hpo.config.shipped import names_of
    from hpo.config.study_config import FREE_KEYS, is_free
    from hpo.study.files.folder import find_study

    try:
        tree = read_yaml(find_study(name).config_path)
    except (HpoError, OSError):
        return
    if given.metavar == "KEY=VALUE":
        # Import it only here, because it loads NumPy.
        from hpo.trials.space.reader import leaves, parted

        space = tree.get("space")
        searched = leaves(parted(space)[0]) if isinstance(space, Mapping) else ()
        yield from ((f"{'.'.join(path)}=", json.dumps(written)) for path, written in searched)
        return
    for group in dict.fromkeys(key.partition(".")[0] for key in FREE_KEYS if not key.startswith("study.")):
        yield from ((f"{group}={choice}", "configuration") for choice in names_of(group))
    for key, value in flatten(tree).items():
        if is_free(key) or (with_own and key.partition(".")[0] not in SEARCH_SECTIONS):
            yield f"{key}=", f"now {json.dumps(value)}"

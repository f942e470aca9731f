"""Completion of words in bash, zsh and fish: a short script per shell, which asks `hpo --complete` at each TAB."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hpo.cli.described import Parameter, describe
from hpo.commands.arguments import EVERYWHERE
from hpo.errors import ConfigError, nearest

Find = Callable[[str], Callable[..., Any] | None]

# Where nothing is answered, each offers files.
SCRIPTS = {
    # Bash splits words at = and :, so it gives the whole line, and gets what follows the last of these.
    "bash": """\
_hpo() {
    local IFS=$'\\n'
    COMPREPLY=($(hpo --complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o default -F _hpo hpo
""",
    "zsh": """\
#compdef hpo
_hpo() {
    local -a found
    found=("${(@f)$(hpo --complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n $found ]]; then _describe hpo found; else _files; fi
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
# The folder of each by the variable that moves it, as in ~; and the path below it.
_PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/hpo"),
    "zsh": ("ZDOTDIR", "", ".zfunc/_hpo"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/hpo.fish"),
}
_NEEDS = {
    "bash": "; where the package bash-completion is not installed, let ~/.bashrc have: source {path}",
    "zsh": "; let .zshrc have: fpath=({folder} $fpath); autoload -Uz compinit; compinit",
    "fish": "",
}
_OF_HPO = {
    "--help": "show all commands",
    "--version": "show the version",
    "--install-completion": "complete words in bash, zsh or fish",
}


def install(shell: str) -> str:
    """Write the script where a shell, without a name that of `$SHELL`, looks for it; return what people read of it."""
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
    return f"wrote {path}, which {name} reads when it starts{needs}"


def answers(shell: str, words: Sequence[str], commands: Mapping[str, str], find: Find) -> Iterator[str]:
    """Yield a line for each word that may replace the last one, as the script of the shell takes it.

    Args:
        shell: one of `SCRIPTS`.
        words: those after `hpo`, the last one as far as it is typed; of bash the whole line.
        commands: all of them, and what each does.
        find: gives the function of a command; None where there is no such command.
    """
    if shell == "bash":
        line = words[0] if words else ""
        try:
            words = shlex.split(line)[1:]
        except ValueError:
            # Within quotes.
            return
        words = [*words, ""] if line[-1:].isspace() else words
    *before, begun = words or [""]
    cut = max(begun.rfind("="), begun.rfind(":")) + 1
    for word, says in _candidates(before, begun, commands, find):
        if word.startswith(begun):
            if shell == "bash":
                yield word[cut:]
            else:
                yield f"{word.replace(':', chr(92) + ':')}:{says}" if shell == "zsh" else f"{word}\t{says}"


def _candidates(
    before: Sequence[str], begun: str, commands: Mapping[str, str], find: Find
) -> Iterator[tuple[str, str]]:
    """Yield what may stand in a place, whatever is begun there, and what it is."""
    if not before:
        yield from (_OF_HPO if begun.startswith("-") else commands).items()
        return
    name, *given = before
    if name == "--install-completion":
        yield from ((shell, "") for shell in SCRIPTS)
    if (function := find(name)) is None:
        return
    parameters = describe(function).parameters
    options = {each.typed: each for each in parameters if each.is_option}
    bare, asks = _read(given, options)
    option, equals, _ = begun.partition("=")
    if asks is not None:
        yield from _values(asks, given)
    elif equals and option in options:
        yield from ((f"{option}={value}", says) for value, says in _values(options[option], given))
    elif begun.startswith("-"):
        yield from ((typed, each.says) for typed, each in options.items())
        yield from ((f"--{each}", says) for each, says in {"help": "show its help", **EVERYWHERE}.items())
    elif (word := _word_at(bare, parameters)) is not None:
        yield from _values(word, given)


def _read(given: Sequence[str], options: Mapping[str, Parameter]) -> tuple[int, Parameter | None]:
    """Return how many bare words there are, and the option whose value comes next."""
    bare, asks = 0, None
    for word in given:
        if asks is not None:
            asks = None
        elif word.startswith("-"):
            option = options.get(word)
            asks = option if option is not None and option.kind is not bool else None
        else:
            bare += 1
    return bare, asks


def _word_at(place: int, parameters: Sequence[Parameter]) -> Parameter | None:
    """Return the parameter that a bare word is read for."""
    for each in parameters:
        if not each.is_option:
            if place == 0 or each.is_many:
                return each
            place -= 1
    return None


def _values(given: Parameter, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what may stand for a parameter: choices, studies, groups of the configuration; else nothing."""
    if given.choices:
        yield from ((choice, given.says) for choice in given.choices)
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

"""Completion of words in bash, zsh and fish: a short script per shell, which asks `hpo --complete` at each TAB."""

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

# Where nothing is answered, each offers files. After the = of a key no blank follows; fish leaves it out by itself.
SCRIPTS = {
    # Bash splits words at = and :, so it gives the whole line, and gets what follows the last of these.
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
# A group and its choice in the `defaults` of a file of conf/.
_CHOICE = re.compile(r"^ *- (?:override )?/?([\w/]+)(?:@\S+)?: *(\w+)", re.MULTILINE)
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
        find: gives the function of a command.
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
    if name not in commands:
        return
    parameters = describe(find(name)).parameters
    options = {each.typed: each for each in parameters if each.is_option}
    bare, asks = _read(given, options)
    option, equals, _ = begun.partition("=")
    if asks is not None:
        yield from _values(asks, name, given)
    elif equals and option in options:
        yield from ((f"{option}={value}", says) for value, says in _values(options[option], name, given))
    elif begun.startswith("-"):
        yield from ((typed, each.says) for typed, each in options.items())
        yield from ((f"--{each}", says) for each, says in {"help": "show its help", **EVERYWHERE}.items())
    elif (word := _word_at(len(bare), parameters)) is not None:
        if parameters[0].metavar == "STUDY" and word.metavar in ("OVERRIDE", "KEY=VALUE"):
            yield from _of_study(bare[0], word, with_own=name == "extend")
        else:
            yield from _values(word, name, given)


def _read(given: Sequence[str], options: Mapping[str, Parameter]) -> tuple[list[str], Parameter | None]:
    """Return the bare words, and the option whose value comes next."""
    bare: list[str] = []
    asks = None
    for word in given:
        if asks is not None:
            asks = None
        elif word.startswith("-"):
            option = options.get(word)
            asks = option if option is not None and option.kind is not bool else None
        else:
            bare.append(word)
    return bare, asks


def _word_at(place: int, parameters: Sequence[Parameter]) -> Parameter | None:
    """Return the parameter that a bare word is read for."""
    for each in parameters:
        if not each.is_option:
            if place == 0 or each.is_many:
                return each
            place -= 1
    return None


def _values(given: Parameter, command: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what may stand for a parameter: choices, studies, groups and keys of the configuration; else nothing."""
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
        yield from _keys("train" if command == "train" else "search", words, (shipped_dir(), *own))


def _keys(primary: str, words: Sequence[str], folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield each key of the configuration with the groups that these words choose, and the comment on it."""
    from hpo.config.shipped import documented_keys

    typed = {key: value for key, _, value in (word.partition("=") for word in words)}
    whole = folders[0] / f"{primary}.yaml"
    chosen: dict[str, str] = dict(_CHOICE.findall(whole.read_text(encoding="utf-8")))
    objective = typed.get("objective", "")
    if "data" not in typed and ":" in objective:
        # A function of the user's has its own keys.
        chosen = {group: name for group, name in chosen.items() if group not in ("data", "model", "training", "space")}
    elif "data" not in typed and (folders[0] / "data" / f"{objective}.yaml").is_file():
        typed["data"] = objective
    for group in ("data", "study"):
        # These may override the choices of other groups.
        for path in _files(group, typed.get(group, chosen.get(group, "")), folders):
            chosen |= _CHOICE.findall(path.read_text(encoding="utf-8"))
    chosen |= {group: typed[group] for group in chosen if group in typed}
    files = [("", whole), *((group, path) for group, name in chosen.items() for path in _files(group, name, folders))]
    keys = {key: says for group, path in files for key, _, says in documented_keys(path, group)}
    yield from ((f"{key}=", says) for key, says in keys.items())


def _files(group: str, name: str, folders: Sequence[Path]) -> list[Path]:
    return [path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()]


def _of_study(name: str, given: Parameter, with_own: bool) -> Iterator[tuple[str, str]]:
    """Yield what an existing study says of a parameter: keys that may change, or what it searches, with their values.

    `with_own`: whether the objective's own keys may change, too. Nothing where the study cannot be read.
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
        # Here, since it loads NumPy.
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

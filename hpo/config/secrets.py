"""A study stores the names of secrets, and never their values.

A configuration is frozen, reported, sent to MLflow and published, so it must not contain passwords or values of the
environment. When a configuration is read, a secret value is *redacted*: the reference `${oc.env:NAME}` replaces it in
memory, in the record, in every file, and in error messages. The value is *revealed* only when the objective gets its
configuration, and when a connection to an address is made.

- A reference `${oc.env:NAME}` that the user has written stays as it is.
- If a key looks like the name of a secret (`my.api_key=...`), or an address has a password, the toolkit makes a name
  for the value (`HPO_MY_API_KEY`). The value itself is not stored.
- Later commands on the study, such as resume, test and reproduce, read the value from the environment variable with
  this name. They cannot check that the value is unchanged, because not even its hash is stored: a password could be
  guessed from its hash.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from hpo.config.documents import parse_yaml
from hpo.config.keys import map_leaves
from hpo.errors import ConfigError

# Secret values by name, as far as this process knows them.
Secrets = Mapping[str, str]

_REFERENCE = re.compile(r"\$\{oc\.env:([A-Za-z_]\w*)\}")
_DECODED = re.compile(r"\$\{oc\.decode:\$\{oc\.env:([A-Za-z_]\w*)\}\}")
# Matches user:password@ in an address. The password may have any characters. A port is no password, even if an @
# follows in the path or query. Quotes (\x22, \x27) end an address.
_PASSWORD = re.compile(
    r"(?<=://)(?!\[)((?:\$\{oc\.env:\w+\}|[^/\s:$\x22\x27]){0,200}:)(?!\d+[/?#])(\$\{oc\.env:\w+\}|(?:(?!://)\S){1,300})(?=@)"
)
# Matches name=value in the query of an address.
_QUERY = re.compile(r"([?&]([\w.-]{1,100})=)([^&\s#]{1,2000})")

# A key is split into words: `api_key`, `apiKey` and `api-key` have two. The words of _SECRET_ANYWHERE mark a secret at
# any position in a key. The words of _HARMLESS mark a secret only as the last word (`key_width` is no secret), and not
# after one of the words listed for them (`pad_token` and `primary_key` are no secrets).
_SECRET_ANYWHERE = frozenset(
    (
        *("apikey", "authorization", "bearer", "credential", "credentials", "passphrase", "passwd", "password", "pwd"),
        *("secret", "secrets"),
    )
)
_HARMLESS = {
    "token": re.compile(
        "begin|blank|bos|cls|end|eos|extra|first|image|last|mask|new|next|pad|padding|sep|separator|special|start|stop"
        "|unk|unknown"
    ),
    "key": re.compile(
        "cache|column|data|dict|feature|field|foreign|group|hash|id|image|index|input|join|label|main|map|metric|name"
        "|output|partition|primary|public|query|row|score|shuffle|sort|source|target|text"
    ),
    "auth": re.compile("no"),
}
_MIN_LENGTH = 4  # a shorter value could occur in any text by chance
_MIN_LINE_LENGTH = 8  # the shortest line to hide of a multi-line value, such as a key in PEM
# A shorter number is no secret, even under a key that looks like one: `key` may be the width of a key.
LEAST_DIGITS = 6


def redact(tree: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    """Replace each secret value in a tree with a reference to an environment variable.

    Return two values: the new tree, and a dict from the names of the variables to the secret values. `prefix` is the
    key of the tree. Raise ConfigError if only a part of a secret comes from the environment.
    """
    secrets: dict[str, str] = {}

    def redacted(value: Any, key: str, is_secret: bool) -> Any:
        if isinstance(value, Mapping):
            keys = {name: f"{key}.{name}" if key else str(name) for name in value}
            return {
                name: redacted(value[name], inner, is_secret or looks_secret(inner)) for name, inner in keys.items()
            }
        if isinstance(value, list):
            return [redacted(inner, f"{key}.{place}", is_secret) for place, inner in enumerate(value)]
        if is_secret and type(value) in (int, float) and len(str(value)) >= LEAST_DIGITS:
            return f"${{oc.decode:{add_secret(str(value), _variable(key))}}}"
        if not isinstance(value, str) or not value:
            return value
        if is_secret and not is_redacted(value):
            return add_secret(value, _variable(key))
        if is_secret and not (_REFERENCE.fullmatch(value) or _DECODED.fullmatch(value)):
            raise mixed_value(key)
        return _in_addresses(value, lambda secret: in_address(secret, key))

    def in_address(value: str, key: str) -> str:
        if _REFERENCE.fullmatch(value):
            return value
        if is_redacted(value):
            raise mixed_value(key)
        return add_secret(value, _variable(f"{key}.password"))

    def add_secret(value: str, variable: str) -> str:
        # The variable may be taken: by a key that differs only in punctuation, or by another secret of the same key.
        number, name = 1, variable
        while secrets.get(name, value) != value:
            number, name = number + 1, f"{variable}_{number + 1}"
        secrets[name] = value
        return f"${{oc.env:{name}}}"

    def mixed_value(key: str) -> ConfigError:
        return ConfigError(
            f"{key}: looks like a secret, but only a part of it comes from the environment; take the whole secret "
            "from one environment variable"
        )

    return cast("dict[str, Any]", redacted(tree, prefix, looks_secret(prefix))), secrets


def is_redacted(value: Any) -> bool:
    """Return whether a value is or contains a reference `${oc.env:NAME}`, which replaces a redacted secret."""
    return isinstance(value, str) and _REFERENCE.search(value) is not None


def redacted_keys(tree: Any) -> Iterator[str]:
    """Yield the dotted keys of the redacted values."""
    return (key for key, text in texts_of(tree) if is_redacted(text))


def redacted_names(tree: Any) -> list[str]:
    """Return the names of all environment variables to which the tree refers, once each, in the order of the tree."""
    return list(dict.fromkeys(name for _, text in texts_of(tree) for name in _REFERENCE.findall(text)))


def values_of(tree: Any, secrets: Secrets, prefix: str = "") -> dict[str, str]:
    """Return a dict from name to value, for all environment variables to which a tree or a text refers.

    The values come from `secrets` or, for names that `secrets` lacks, from the environment. Raise ConfigError if a
    variable has no value in either. `prefix` is the key of the tree or of the text.
    """
    values: dict[str, str] = {}
    for key, text in texts_of(tree, prefix):
        for name in _REFERENCE.findall(text):
            value = secrets.get(name, os.environ.get(name))
            if value is None:
                raise ConfigError(
                    f"{key}: the environment variable {name} is not set, and a study stores only the names of "
                    f"secrets; set the variable, or give {key}=... again"
                )
            values[name] = value
    return values


def texts_of(tree: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted key and the value of every string in a tree; `prefix` is the key of the tree."""
    if isinstance(tree, Mapping | list):
        for name, inner in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from texts_of(inner, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(tree, str):
        yield prefix, tree


def reveal_secrets(tree: Any, values: Secrets) -> Any:
    """Return the tree, or the text, with secret values in place of their names; names without a value stay."""

    def revealed(leaf: Any) -> Any:
        if not isinstance(leaf, str) or "${oc." not in leaf:
            return leaf
        whole = _DECODED.fullmatch(leaf)
        if whole and whole[1] in values:
            return parse_yaml(values[whole[1]], f"the environment variable {whole[1]}")
        return _REFERENCE.sub(lambda match: values.get(match[1], match[0]), leaf)

    return map_leaves(tree, revealed)


def hide_secrets(text: str, values: Secrets) -> str:
    """Return the text with a reference `${oc.env:NAME}` in place of each secret value.

    The secret values are those in `values`, and those of environment variables whose names look like secrets. If a
    secret value has several lines, each line is also replaced where it occurs alone. Very short values and lines stay
    in the text. Escaped, encoded or split values are not found.

    Passwords in URLs become `***`, and so do query values in URLs if their names look like secrets.
    """
    of_environment = {n: value for n, value in os.environ.items() if looks_secret(n) and n not in ("PWD", "OLDPWD")}
    named = {**of_environment, **values}
    forms = {form: name for name, value in named.items() for form in _forms(value)}
    if forms:
        # The longest values come first, because a value may contain another.
        found = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
        text = found.sub(lambda match: f"${{oc.env:{forms[match[0]]}}}", text)
    return _in_addresses(text, lambda secret: secret if _REFERENCE.fullmatch(secret) else "***")


def _forms(value: str) -> list[str]:
    """Return the texts that reveal a secret value: the value and each of its lines, without very short texts."""
    lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_LINE_LENGTH]
    return [value.strip(), *lines] if len(value.strip()) >= _MIN_LENGTH else lines


def excerpt(text: str, values: Secrets, most: int | None = None, has_lines: bool = False) -> str:
    """Return an excerpt of a text from user code, without the secrets in `values`, for display and storage.

    With `has_lines`, keep the line breaks and the last `most` characters. Otherwise, join the lines, and keep the first
    `most` characters.
    """
    return make_writable(hide_secrets(text, values), most, has_lines)


def make_writable(text: str, most: int | None = None, has_lines: bool = False) -> str:
    """Return a text from user code in a form that files can store, shortened as in `excerpt`.

    Secrets are not hidden. Use this function instead of `excerpt` for names, such as the name of a metric, because a
    name with a hidden part could not be found again.
    """
    if not has_lines:
        text = " ".join(text.split())
    # A lone surrogate cannot be written to a file.
    text = text.encode(errors="backslashreplace").decode()
    if most is None or len(text) <= most:
        return text
    return text[-most:] if has_lines else text[:most]


def _in_addresses(text: str, replacement: Callable[[str], str]) -> str:
    """Replace each secret in the URLs of a text: a password, or a query value whose name looks like a secret."""

    def in_query(match: re.Match[str]) -> str:
        is_secret = looks_secret(match[2]) or match[2].lower() in ("sig", "signature")
        return match[1] + replacement(match[3]) if is_secret else match[0]

    text = _PASSWORD.sub(lambda match: match[1] + replacement(match[2]), text)
    return _QUERY.sub(in_query, text)


def hide_secrets_in(tree: Any, values: Secrets) -> Any:
    """Return the tree with `hide_secrets` applied to every string value; keys stay unchanged."""
    if isinstance(tree, Mapping):
        return {name: hide_secrets_in(inner, values) for name, inner in tree.items()}
    if isinstance(tree, list | tuple):
        return [hide_secrets_in(inner, values) for inner in tree]
    return hide_secrets(tree, values) if isinstance(tree, str) else tree


def hide_in_argument(argument: str) -> str:
    """Return an argument of the command line without secrets.

    If the argument is `key=value` and the key looks like the name of a secret, the value becomes `***`. Otherwise,
    secrets are hidden as in `hide_secrets`.
    """
    key, equals, value = argument.partition("=")
    if equals and value and looks_secret(key.lstrip("+~-")) and not _REFERENCE.fullmatch(value):
        return f"{key}=***"
    return hide_secrets(argument, {})


@lru_cache(maxsize=4096)
def looks_secret(key: str) -> bool:
    """Return whether a dotted key looks like the name of a secret, such as `my.api_key`."""
    *_, last = key.split(".")
    words = [word.lower() for part in key.split(".") for word in _words(part)]
    if not _SECRET_ANYWHERE.isdisjoint(words):
        return True
    *before, end = [word.lower() for word in _words(last)] or [""]
    return end in _HARMLESS and not (before and _HARMLESS[end].fullmatch(before[-1]))


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)


def _variable(key: str) -> str:
    return "HPO_" + re.sub(r"\W", "_", key).upper()

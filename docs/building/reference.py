"""Writes the pages of the reference again: keys of conf/, what `--help` prints, fields of the schema, docstrings.

`python -m docs.building.reference` writes what stands between `<!-- reference: ... -->` and `<!-- end -->`; a test says
when that is due.
"""

import ast
import contextlib
import copy
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from hpo.cli.main import COMMANDS, main
from hpo.commands.study import Study
from hpo.config.shipped import WHOLE, documented_keys

REPOSITORY = Path(__file__).parents[2]
# The order in which a reader meets the groups; the first line of each is this page's own.
GROUPS = {
    "study": "What a study is: its name, budget, metric, and how its winner is chosen.",
    "space": "What is searched ([how a space is written](../how_to/define_a_space.md)).",
    "strategy": "How points are proposed ([which to take](../how_to/choose_a_strategy.md)).",
    "split": "What is trained on, validated on, and kept for the test.",
    "data": "What is read. `data.path` and the like are files of yours.",
    "data/metrics": "How predicted texts are scored: keys that `data=translation` brings.",
    "model": "The networks: three families in three shapes.",
    "training": "The trainer of these networks.",
    "dispatch": "Where trainings run ([on GPUs and on several machines](../how_to/run_on_machines.md)).",
    "track": "Where runs are shown ([in MLflow](../how_to/use_mlflow.md)).",
    "report": "What only a person knows of a study, and what the page contains.",
}
MARKED = re.compile(r"(?P<marker><!-- reference: (?P<what>\w+)(?P<of>[^>]*) -->).*?<!-- end -->", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages with generated parts."""
    return sorted(path for path in (REPOSITORY / "docs" / "reference").glob("*.md") if MARKED.search(path.read_text()))


def written(markdown: str) -> str:
    """Return the page with its generated parts written anew."""
    parts = {
        "configuration": configuration,
        "commands": commands,
        "report": report,
        "python": python,
        "fields": fields_of,
    }

    def part(found: re.Match[str]) -> str:
        return f"{found['marker']}\n\n{parts[found['what']](*found['of'].split())}\n\n<!-- end -->"

    return MARKED.sub(part, markdown)


def configuration() -> str:
    """Return a section for each group of conf/, and in it a table for each of its files."""
    parts = ["## The whole"]
    parts += [_options(f"hpo {name}", REPOSITORY / "conf" / f"{name}.yaml") for name in ("search", "train")]
    for group, what in GROUPS.items():
        parts.append(f"## {group}\n\n{what}")
        files = sorted(
            (REPOSITORY / "conf" / group).glob("*.yaml"), key=lambda path: (path.stem != "default", path.stem)
        )
        parts += [_options(f"{group}={path.stem}", path, group) for path in files]
    return "\n\n".join(parts)


def _options(name: str, path: Path, group: str = "") -> str:
    """Return the section of a file of a group, or of a whole one."""
    text = path.read_text()
    if group == "space":
        return f"### {name}\n\n```yaml\n{text.rstrip()}\n```"
    above = [line.removeprefix("#").strip() for line in text.replace(WHOLE, "").splitlines() if line.startswith("#")]
    keys = [(key, value.replace("|", "\\|"), _escaped(meaning)) for key, value, meaning in documented_keys(path, group)]
    rows = [f"| `{key}` | `{value}` | {meaning} |" for key, value, meaning in keys]
    table = ["| key | default | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"### {name}", "", _escaped(" ".join(above)), "", *table])


def _escaped(text: str) -> str:
    """Return a text of conf/ as Markdown that shows it as it stands."""
    return re.sub(r"([|<>\[\]*_])", r"\\\1", text)


def commands() -> str:
    """Return a section for each command: what `--help` prints."""
    return "\n\n".join(f"## hpo {name}\n\n```text\n{_help_of(name)}\n```" for name in COMMANDS)


def _help_of(command: str) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([command, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return printed.getvalue().rstrip()


def report() -> str:
    """Return a table of the fields of report.json, and one for each kind of part in it."""
    schema = json.loads((REPOSITORY / "docs" / "reference" / "report.schema.json").read_text())
    parts = [_fields(schema)]
    for name, part in sorted(schema["$defs"].items()):
        parts.append(f"### {name}\n\n{part.get('description', '')}\n\n{_fields(part)}")
    return "\n\n".join(parts)


def _fields(part: Mapping[str, Any]) -> str:
    needed = set(part.get("required", ()))
    rows = ["| field | is | meaning |", "|---|---|---|"]
    for name, rule in part.get("properties", {}).items():
        optional = "" if name in needed else " (may be absent)"
        rows.append(f"| `{name}` | {_kind(rule)}{optional} | {_escaped(rule.get('description', ''))} |")
    return "\n".join(rows)


def _kind(rule: Mapping[str, Any]) -> str:
    """Return in words what a field may hold."""
    if "$ref" in rule:
        name = rule["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in rule:
        return " or ".join(dict.fromkeys(_kind(choice) for choice in rule["anyOf"]))
    if "const" in rule or "enum" in rule:
        return " or ".join(f"`{json.dumps(value)}`" for value in rule.get("enum", [rule.get("const")]))
    if rule.get("type") == "array":
        return f"list of {_kind(rule['items'])}" if rule.get("items") else "list"
    if isinstance(rule.get("additionalProperties"), Mapping):
        return f"object of {_kind(rule['additionalProperties'])}"
    return str(rule.get("type", "anything"))


def python(name: str, file: str) -> str:
    """Return the section of a function or class of this file: signature and docstring, read without importing it."""
    own = name.rpartition(".")[2]
    tree = ast.parse((REPOSITORY / file).read_text())
    # The last of that name: overloads, which say nothing more, come before it.
    *_, node = (it for it in tree.body if isinstance(it, ast.FunctionDef | ast.ClassDef) and it.name == own)
    parts = [f"### {name}", _described(node)]
    for member in _members(node, tree) if isinstance(node, ast.ClassDef) else ():
        parts += [f"#### {own}.{member.name}", _described(member)]
    return "\n\n".join(parts)


def fields_of(name: str, file: str) -> str:
    """Return the table of a dataclass's fields, as its docstring has them, in this order."""
    tree = ast.parse((REPOSITORY / file).read_text())
    node = next(it for it in tree.body if isinstance(it, ast.ClassDef) and it.name == name)
    attributes = (ast.get_docstring(node) or "").partition("Attributes:\n")[2]
    lines = re.sub(r"\n {8}", " ", attributes).splitlines()
    pairs = [line.strip().partition(": ")[::2] for line in lines if line.strip()]
    return "\n".join(["| field | is |", "|---|---|", *(f"| `{field}` | {says} |" for field, says in pairs)])


def _members(node: ast.ClassDef, tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the public members of a class, then those that it has from classes of ours."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            yield member
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    for line in tree.body:
        names = {name.name for name in line.names} & bases if isinstance(line, ast.ImportFrom) else set()
        if names and isinstance(line, ast.ImportFrom) and (line.module or "").startswith("hpo."):
            there = ast.parse((REPOSITORY / f"{line.module.replace('.', '/')}.py").read_text())
            for other in there.body:
                if isinstance(other, ast.ClassDef) and other.name in names:
                    yield from _members(other, there)


def _described(node: ast.FunctionDef | ast.ClassDef) -> str:
    """Return the signature and the docstring of a function, or of a class."""
    made = node if isinstance(node, ast.FunctionDef) else _made_by(node)
    is_property = any(ast.unparse(name).endswith("property") for name in node.decorator_list)
    says = "" if made is None or is_property else f"({_arguments(made)})"
    gives = (
        f" -> {ast.unparse(node.returns).strip(chr(39))}" if isinstance(node, ast.FunctionDef) and node.returns else ""
    )
    # One parameter a line.
    broken = (
        re.sub(r", (?=\*|\w+:)", ",\n    ", says).replace("(", "(\n    ", 1)[:-1] + ",\n)" if len(says) > 80 else says
    )
    return f"```text\n{node.name}{broken}{gives}\n```\n\n{_as_markdown(_docstring(node)).rstrip()}"


def _docstring(node: ast.FunctionDef | ast.ClassDef) -> str:
    """Return the docstring of a function or class; a method of a study that is a command has that of the command."""
    if any(ast.unparse(name).startswith("_documented_by(") for name in node.decorator_list):
        return str(getattr(Study, node.name).__doc__)
    return ast.get_docstring(node) or ""


def _as_markdown(docstring: str) -> str:
    """Return a docstring of Google's style as Markdown: its sections as lists, those of a shell as they are."""
    shell = r"^(Examples|Fields|Operators):\n((?: {4}.*\n?)+)"
    fenced = re.sub(
        shell, lambda it: f"{it[1]}:\n```text\n{dedent(it[2]).rstrip()}\n```\n", docstring, flags=re.MULTILINE
    )
    text = re.sub(r"^(\w+):$", r"**\1**\n", fenced, flags=re.MULTILINE)
    text = re.sub(r"^ {4}([\w.][\w., *]*): ", r"- `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^ {4}(?=\S)", "", text, flags=re.MULTILINE)
    # Outside of code a name in angle brackets is a tag.
    return "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(text.split("`")))


def _made_by(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((it for it in node.body if isinstance(it, ast.FunctionDef) and it.name == "__init__"), None)


def _arguments(node: ast.FunctionDef) -> str:
    return re.sub(r"^self(, )?", "", ast.unparse(_PythonTypes().visit(copy.deepcopy(node.args))))


class _PythonTypes(ast.NodeTransformer):
    """Leaves out of annotations what they say for a shell."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Put a type in the place of a name for one."""
        return self.visit(_TYPES[node.id]) if node.id in _TYPES else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Put X in the place of `Annotated[X, ...]`."""
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])
        return self.generic_visit(node)


_SHARED = ast.parse((REPOSITORY / "hpo/commands/arguments.py").read_text()).body
_TYPES = {
    node.targets[0].id: node.value
    for node in _SHARED
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
}


if __name__ == "__main__":
    for page in pages():
        page.write_text(written(page.read_text()))

"""Fields 3 to 6 and 8: the data, its split, its preparation, and the metric."""

from typing import Any, cast

from hpo.report.facts.schema.missing import Missing, missing
from hpo.report.facts.schema.report import DataPart, MethodPart, MetricPart, SplitPart
from hpo.report.facts.words import counted
from hpo.study.study import Study

_OWN = "the objective brings its own data (its module has no describe_data)"
_UNKNOWN = "the data are not where they were, and a study of before version 0.2.0 does not keep what the objective says"


def describe_data(study: Study) -> DataPart:
    """Return where the data comes from, and how it was divided."""
    given, name, said = study.config.report, study.reference, study.described
    absent = missing(_OWN if study.objective.describe_data is None else _UNKNOWN)
    files: list[dict[str, Any]] | str | Missing = [dict(file) for file in said.files or ()]
    if said.files is None:
        files = missing(_UNKNOWN)
    elif not files:
        files = absent if said.split is None else "none: the data comes with a library, or is generated"
    return {
        "name": absent if said.name is None else said.name,
        "version": given.data_version or said.version or _ask(name, "data_version"),
        "source": given.data_source or said.source or _ask(name, "data_source"),
        "licence": given.data_licence or said.licence or _ask(name, "data_licence"),
        "exclusions": given.exclusions or _ask(name, "exclusions"),
        "files": files,
        "size": said.size,
        "split": absent if said.split is None else {**cast("SplitPart", said.split), "seed": study.config.split.seed},
    }


def describe_method(study: Study) -> MethodPart:
    """Return the objective's description of a training: preprocessing, vocabulary, checkpoint, determinism, metrics."""
    described = study.described.method
    if described is None:
        return no_method(_UNKNOWN)
    reason = f"{study.config.objective.partition(':')[0]} has no describe_method that describes it"
    return {
        "preprocessing": described.get("preprocessing") or missing(reason),
        "vocabulary": described.get("vocabulary") or missing(reason),
        "checkpoint": described.get("checkpoint") or missing(reason),
        "determinism": described.get("determinism") or missing(reason),
        "metrics": described.get("metrics") or {},
    }


def no_method(reason: str) -> MethodPart:
    """Return the same keys with missing values."""
    absent = missing(reason)
    return {"preprocessing": absent, "vocabulary": absent, "checkpoint": absent, "determinism": absent, "metrics": {}}


def describe_metric(study: Study, method: MethodPart) -> MetricPart:
    """Return the metric, its definition, its direction, and the mean that makes a score."""
    config = study.config.study
    definition = method["metrics"].get(config.metric)
    reason = f"{study.config.objective.partition(':')[0]}.describe_method defines no metric '{config.metric}'"
    over = [counted(study.num_folds, "fold*"), f"{counted(config.repeats, 'seed*')} each"]
    return {
        "name": config.metric,
        "definition": definition or missing(reason),
        "direction": config.direction,
        "aggregation": f"mean over {' and '.join(over)}",
        "checkpoint": method["checkpoint"],
    }


def _ask(name: str, key: str) -> Missing:
    return missing(f'nobody has said it: hpo report {name} report.{key}="..."')

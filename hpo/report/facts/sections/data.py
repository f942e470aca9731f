"""Fields 3 to 6 and 8: the data, its split, its preparation, and the metric."""

from typing import cast

from hpo.engine.training.splits import Plan
from hpo.report.facts.schema.missing import Missing, missing
from hpo.report.facts.schema.report import DataPart, MethodPart, MetricPart, SplitPart
from hpo.report.facts.words import counted
from hpo.study.study import Study

_OWN = "the objective brings its own data (its module has no describe_data)"


def describe_data(study: Study) -> DataPart:
    """Return where the data comes from, and how it was divided."""
    given, name = study.config.report, study.reference
    own = study.examples if study.plan else None
    files = [dict(file) for file in own.files] if own else [vars(file) for file in study.own.files]
    return {
        "name": own.name if own else missing(_OWN),
        "version": given.data_version or (own and own.version) or _ask(name, "data_version"),
        "source": given.data_source or (own and own.source) or _ask(name, "data_source"),
        "licence": given.data_licence or (own and own.licence) or _ask(name, "data_licence"),
        "exclusions": given.exclusions or _ask(name, "exclusions"),
        "files": files or ("none: the data comes with a library, or is generated" if own else missing(_OWN)),
        "size": own.size if own else None,
        "split": _split(study.plan, study.config.split.seed) if study.plan else missing(_OWN),
    }


def _split(plan: Plan, seed: int) -> SplitPart:
    figures = plan.to_dict()
    return {**cast("SplitPart", figures), "seed": seed}


def describe_method(study: Study) -> MethodPart:
    """Return the objective's description of a training: preprocessing, vocabulary, checkpoint, determinism, metrics."""
    described = (
        dict(study.objective.describe_method(study.config.objective_config)) if study.objective.describe_method else {}
    )
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

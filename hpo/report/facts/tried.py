"""Whether a reproduction of a study was tried where it was made, and what it found, in words."""

from hpo.report.facts.schema.report import ReportJson
from hpo.report.facts.words import counted


def reproduction_text(summary: ReportJson) -> str:
    """Return the finding of the last `hpo reproduce`, as a part of a sentence: `tried on 2026-11-26: ...`."""
    found = summary["study"].get("reproduction")
    if found is None:
        return f"not tried (`hpo reproduce {summary['study']['name']}`)"
    trials, trainings = found["trials"], found["trainings"]
    of = f"trial {trials[0]}" if len(trials) == 1 else counted(len(trials), "trial*")
    folds = found["folds"] or []
    some = f", on fold{'' if len(folds) == 1 else 's'} {', '.join(map(str, folds))} alone" if folds else ""
    within = f"within {found['tolerance']:.2g} of its score" if found["tolerance"] else "equal to the last bit"
    held = f"all {trainings} trainings" if trainings > 1 else "the training"
    says = f"{held} of {of}{some} {within}"
    if found["differing"]:
        says = f"{found['differing']} of {counted(trainings, 'training*')} of {of}{some} not {within}"
    if found["differing_numbers"]:
        says += f"; {counted(found['differing_numbers'], 'number*')} of the report not what they give"
    if found["changes"]:
        says += f"; changed since: {'; '.join(found['changes'])}"
    return f"tried on {found['time'][:10]}: {says}"

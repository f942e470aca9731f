"""Divides examples into a test split and one or more folds; computes the sizes and fingerprints of the splits."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hpo.config.sections import SplitSection
from hpo.errors import DataError
from hpo.formatting import format_count
from hpo.workers.objective.examples import Examples, Indices

# The number of folds if the data has no validation split and the configuration gives no number.
DEFAULT_FOLDS = 3

Kind = Literal["predefined", "random", "consecutive", "cross_validation"]

_SHOWN = 40  # how many characters of a label to show, at most


@dataclass(frozen=True)
class Fold:
    """A train split and its validation split. Indices refer to `Examples` and are ascending."""

    train: Indices
    validation: Indices


@dataclass(frozen=True)
class Plan:
    """The folds of a search, and facts about each split, such as its size."""

    # How validation splits are made: predefined by the data, held out at random or at the end of the data, or k folds.
    kind: Kind
    development: Indices  # all examples outside the test split, ascending
    folds: tuple[Fold, ...]  # a single validation split is one fold
    # By name of the split: its size, share of all examples, fingerprint and label counts. The plan does not contain the
    # indices of the test split.
    parts: Mapping[str, Mapping[str, Any]]
    # By pair of splits, such as `test in train`: how many examples of the first split have equal content in the second.
    # Empty if the examples have no digests.
    duplicates: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the facts about the splits for the record and the reports, without the lists of indices."""
        folds = [{"train": len(fold.train), "validation": len(fold.validation)} for fold in self.folds]
        parts = {name: dict(figures) for name, figures in self.parts.items()}
        return {"kind": self.kind, "parts": parts, "folds": folds, "duplicates": dict(self.duplicates)}


def make_plan(examples: Examples, settings: SplitSection) -> Plan:
    """Split the examples. Equal examples and settings give equal splits.

    A predefined test split of the data becomes the test split. Otherwise the test split is a random sample of
    `test_fraction` of all examples. The sample contains no example of a predefined validation split.

    The other examples are divided into `folds` folds. If `folds` is None, data with a predefined validation split has
    one fold, and other data has DEFAULT_FOLDS. A single fold uses the predefined validation split. If the data has no
    predefined validation split, a single fold validates on a random sample of `validation_fraction` of all examples.

    Splits of ordered data are consecutive: in place of a random sample, the last examples are held out.

    If `stratify` is set and there are two or more folds, the folds are stratified by class. If `stratify` is set and
    the data has no groups, random samples are also stratified by class. Ordered data and data without labels are never
    stratified.

    Raises:
        DataError: the examples cannot be split in this way, for example because there are too few.
    """
    test = _test_indices(examples, settings)
    in_test = set(test)
    development = tuple(i for i in range(examples.size) if i not in in_test)
    validation = examples.part("validation")
    num_folds = settings.folds or (1 if validation else DEFAULT_FOLDS)
    kind: Kind
    if num_folds > 1:
        kind, folds = "cross_validation", _folds(examples, development, num_folds, settings)
    elif validation:
        kind, folds = "predefined", (Fold(tuple(sorted(set(development) - set(validation))), validation),)
    else:
        parts = _held_out(examples, development, settings.validation_fraction, settings, seed_shift=1)
        kind, folds = "consecutive" if examples.is_ordered else "random", (Fold(*parts),)
    named = {"development": development} if num_folds > 1 else vars(folds[0]) | {}
    named |= {"test": test} if test else {}
    figures = {name: _figures(examples, indices) for name, indices in named.items()}
    duplicates = _duplicates(examples, named)
    if num_folds > 1 and examples.digests is not None:
        duplicates["validation in train"] = sum(
            _duplicates(examples, {"train": fold.train, "validation": fold.validation})["validation in train"]
            for fold in folds
        )
    return Plan(kind, development, folds, figures, duplicates)


def duplicates_text(duplicates: Mapping[str, int]) -> str:
    """Return the number of shared examples of each pair of splits as text, such as `3 of test in train`; "" = none."""
    return ", ".join(f"{count} of {pair}" for pair, count in duplicates.items() if count)


def open_test_part(examples: Examples, settings: SplitSection) -> Indices:
    """Return the indices of the test split. Only `hpo test` and `Study.test` may use this function.

    Raises:
        DataError: the test split is empty, or the examples cannot be split.
    """
    test = _test_indices(examples, settings)
    if not test:
        raise DataError("data: the test split is empty; give data with test examples")
    return test


def _test_indices(examples: Examples, settings: SplitSection) -> Indices:
    if (examples.parts or {}).get("test") is None:
        everything = tuple(range(examples.size))
        if examples.parts and "validation" in examples.parts:
            # Keep the predefined validation split whole, and take test examples only from the train split.
            everything = examples.part("train")
        return _held_out(examples, everything, settings.test_fraction, settings)[1]
    return examples.part("test")


def _held_out(
    examples: Examples, indices: Indices, fraction_of_all: float, settings: SplitSection, seed_shift: int = 0
) -> tuple[Indices, Indices]:
    """Split the indices in two. The second part has `fraction_of_all` of all examples, but at least one example.

    With groups, the size of the second part is inexact.
    """
    count = max(1, round(fraction_of_all * examples.size))
    if count >= len(indices):
        raise DataError(
            f"data: cannot hold out {count} of {len(indices)} example{'s' * (len(indices) != 1)}, because no example "
            f"would be left for training; give more examples, or lower split.test_fraction or split.validation_fraction"
        )
    if examples.is_ordered:
        return indices[:-count], indices[-count:]
    seed = settings.seed + seed_shift
    if examples.groups is not None:
        groups = _codes(examples.groups, indices)
        from sklearn.model_selection import GroupShuffleSplit

        splitter = GroupShuffleSplit(n_splits=1, test_size=count / len(indices), random_state=seed)
        try:
            rest, held_out = next(iter(splitter.split(np.zeros(len(indices)), groups=groups)))
        except ValueError as error:
            raise DataError(
                f"data: cannot hold out {count} of {len(indices)} examples as whole groups, because no group would be "
                f"left for training (the examples have {format_count(len(set(groups)), 'group*')}); give more groups, "
                f"or lower split.test_fraction or split.validation_fraction"
            ) from error
    else:
        from sklearn.model_selection import train_test_split  # Importing takes a second.

        strata = _strata(examples, indices, settings)
        try:
            rest, held_out = train_test_split(
                np.arange(len(indices)), test_size=count, random_state=seed, stratify=strata
            )
        except ValueError as error:
            labels = examples.labels or ()
            raise DataError(_reason_against_strata(Counter(str(labels[i]) for i in indices), count)) from error
    return _sorted_at(indices, rest), _sorted_at(indices, held_out)


def _reason_against_strata(counts: Mapping[str, int], held_out: int) -> str:
    """Return the message for labels that cannot be stratified; `counts` has the number of examples by label."""
    once = [label for label, count in counts.items() if count == 1]
    if once:
        return (
            f"data: cannot be split by class, because some labels occur only once ({len(once)} of {len(counts)}, such "
            f"as {once[0][:_SHOWN]!r}); if they are not classes but texts, check data.label_column; otherwise give "
            "more examples, or set split.stratify=false"
        )
    size = min(held_out, sum(counts.values()) - held_out)
    return (
        f"data: cannot be split by class, because a split of {size} example{'s' * (size != 1)} cannot have examples of "
        f"all {len(counts)} classes; give more examples, change split.test_fraction or split.validation_fraction, or "
        "set split.stratify=false"
    )


def _folds(examples: Examples, development: Indices, k: int, settings: SplitSection) -> tuple[Fold, ...]:
    strata = _strata(examples, development, settings)
    if strata is not None and examples.labels is not None:
        rarest, count = min(Counter(strata).items(), key=lambda pair: pair[1])
        if count < k:
            label = examples.labels[development[strata.index(rarest)]]
            raise DataError(
                f"split.folds: must be at most {count}, given {k}; class {repr(label)[:_SHOWN]} has only {count} "
                f"example{'s' * (count != 1)}; lower split.folds or set split.stratify=false"
            )
    if k > len(development):
        raise DataError(
            f"split.folds: must be at most the number of examples outside the test split ({len(development)}), "
            f"given {k}"
        )
    groups = None if examples.groups is None else _codes(examples.groups, development)
    if groups is not None and len(set(groups)) < k:
        raise DataError(
            f"split.folds: must be at most the number of groups outside the test split ({len(set(groups))}), given {k}"
        )
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    kinds = {(False, False): KFold, (True, False): StratifiedKFold, (False, True): GroupKFold}
    kind = kinds.get((strata is not None, groups is not None), StratifiedGroupKFold)
    # Without `shuffle`, the folds are consecutive.
    splitter = KFold(k) if examples.is_ordered else kind(n_splits=k, shuffle=True, random_state=settings.seed)
    pairs = splitter.split(np.zeros(len(development)), strata, groups)
    return tuple(Fold(_sorted_at(development, train), _sorted_at(development, val)) for train, val in pairs)


def _strata(examples: Examples, indices: Indices, settings: SplitSection) -> list[int] | None:
    if examples.labels is None or examples.is_ordered or not settings.stratify:
        return None
    return _codes(examples.labels, indices)


def _codes(values: Sequence[Any], indices: Indices) -> list[int]:
    """Replace each label or group by its rank, because sklearn refuses some types, such as fractions."""
    given = [values[i] for i in indices]
    with contextlib.suppress(TypeError, ValueError):
        if (array := np.asarray(given)).ndim == 1:
            return list(np.unique(array, return_inverse=True)[1])
    # The values are tuples, or have no order, such as texts and None.
    return list(np.unique([str(value) for value in given], return_inverse=True)[1])


def _sorted_at(indices: Indices, positions: Any) -> Indices:
    return tuple(sorted(indices[int(i)] for i in positions))


def _figures(examples: Examples, indices: Indices) -> dict[str, Any]:
    labels = examples.labels
    counts = None if labels is None else dict(sorted(Counter(str(labels[i]) for i in indices).items()))
    return {
        "size": len(indices),
        "fraction": len(indices) / examples.size,
        "fingerprint": examples.fingerprint(indices),
        "labels": counts,
    }


def _duplicates(examples: Examples, named: Mapping[str, Indices]) -> dict[str, int]:
    if examples.digests is None:
        return {}
    recurring = set(examples.recurring)
    named = {name: tuple(i for i in indices if i not in recurring) for name, indices in named.items()}
    contents = {name: {examples.digests[i] for i in indices} for name, indices in named.items()}
    names = list(named)
    return {
        f"{second} in {first}": sum(examples.digests[i] in contents[first] for i in named[second])
        for place, first in enumerate(names)
        for second in names[place + 1 :]
    }

"""The configuration of pairs of sequences: keys and rules; the values are in conf/data."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from model.config.data import Column, DataConfig, FilesConfig, Path, Share
from model.config.section import Section, refuse

# The most numbers in all generated sources together. They are kept in memory; this many Python integers take about
# 10 GB.
MOST_NUMBERS = 100_000_000
ALIGNED = "data.path=train data.source_ending=.de data.target_ending=.en"


class SearchedTargets(Section):
    """The settings of the beam search that decodes targets."""

    beam_size: Annotated[int, Field(ge=1, le=1000)]
    length_penalty: Annotated[float, Field(ge=0, le=10)]


class TranslationConfig(FilesConfig, SearchedTargets):
    """The settings for pairs of sequences, from tables, from aligned files or from the Hugging Face hub."""

    name: Literal["translation"]
    format: Literal["auto", "csv", "tsv", "jsonl", "aligned", "hub"]
    source_ending: Path | None
    target_ending: Path | None
    header: bool | None
    source_column: Column | None
    target_column: Column | None
    tokens: Literal["words", "characters", "blanks", "subwords"]
    target_tokens: Literal["words", "characters", "blanks", "subwords"] | None
    shared_vocabulary: bool
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    max_length: Annotated[int, Field(ge=1, le=1_000_000)]
    max_cut_share: Share

    @property
    def is_aligned(self) -> bool:
        """Whether each split consists of two files that are aligned line by line."""
        has_ending = self.format == "auto" and (self.source_ending or self.target_ending) is not None
        return self.format == "aligned" or has_ending

    @model_validator(mode="after")
    def _settings_fit(self) -> Self:
        endings = (self.source_ending, self.target_ending)
        if self.is_aligned != all(endings) or (self.format not in ("auto", "aligned") and any(endings)):
            raise refuse(
                f"aligned files need both file endings (as in {ALIGNED}); for other files, leave out both endings; "
                f"data.format is {self.format}",
                "data.source_ending",
                "data.target_ending",
                "data.format",
            )
        if self.max_size is None and "subwords" in (self.tokens, self.target_tokens):
            raise refuse(
                "must be given for subwords; give a number, for example data.max_size=8000",
                "data.max_size",
                "data.tokens",
            )
        if self.shared_vocabulary and self.target_tokens not in (None, self.tokens):
            raise refuse(
                "must be false if data.target_tokens differs from data.tokens; set it to false, or set "
                "data.target_tokens=null",
                "data.shared_vocabulary",
                "data.target_tokens",
            )
        return self


class GeneratedConfig(DataConfig, SearchedTargets):
    """The settings for generating pairs of number sequences from a seed."""

    name: Literal["generated"]
    path: None = None
    train: None = None
    validation: None = None
    test: None = None
    task: Literal["reverse", "copy", "sort", "modular_addition"]
    num_examples: Annotated[int, Field(ge=1, le=100_000_000)]
    num_symbols: Annotated[int, Field(ge=2, le=1_000_000)]
    min_length: Annotated[int, Field(ge=1)]
    max_length: Annotated[int, Field(ge=1, le=100_000)]
    seed: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _lengths_rise(self) -> Self:
        if self.min_length > self.max_length:
            raise refuse(
                f"min_length must not be above max_length, given {self.min_length} and {self.max_length}",
                "data.min_length",
                "data.max_length",
            )
        return self

    @model_validator(mode="after")
    def _fits_into_memory(self) -> Self:
        if self.num_examples * self.max_length > MOST_NUMBERS:
            raise refuse(
                f"data.num_examples * data.max_length must be at most {MOST_NUMBERS:,}, given {self.num_examples} * "
                f"{self.max_length}; lower one of the two settings",
                "data.num_examples",
                "data.max_length",
            )
        return self

    # SequenceToSequence reads these settings for every kind of pairs; for generated pairs, their values are fixed.
    tokens: ClassVar[str] = "blanks"
    target_tokens: ClassVar[None] = None
    shared_vocabulary: ClassVar[bool] = True
    lowercase: ClassVar[bool] = False
    min_count: ClassVar[int] = 1
    max_size: ClassVar[None] = None

"""The keys of the section `data`, and the rules for their values; conf/data has the values for each kind of data.

Only the paths and `metric_name` have defaults here, because not every kind of data needs these keys.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from model.config.section import Fraction, Section, refuse

Column = Annotated[str, Field(min_length=1)] | Annotated[int, Field(ge=0)]
Path = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class DataConfig(Section):
    """The settings that all kinds of data share.

    A worker that trains gets a configuration with null paths, so that it cannot read the source files.
    """

    lengths_differ: ClassVar[bool] = True  # whether examples are sequences of different lengths

    name: str
    metric_name: Path | None = None  # the default of study.metric, which this package does not read
    path: Path | None = None
    train: Path | None = None
    validation: Path | None = None
    test: Path | None = None


class DigitsConfig(DataConfig):
    """The settings for scikit-learn's handwritten digits; this data needs no file."""

    lengths_differ: ClassVar[bool] = False

    name: Literal["digits"]
    path: None = None
    train: None = None
    validation: None = None
    test: None = None


class FilesConfig(DataConfig):
    """The settings for the user's data: one file, one file per split, or a data set on the Hugging Face hub."""

    format: str
    subset: Path | None

    for_the_hub: ClassVar[tuple[str, ...]] = ("subset",)  # settings that have no effect on files

    @model_validator(mode="after")
    def _hub_settings_have_an_effect(self) -> Self:
        for name in self.for_the_hub:
            if getattr(self, name) is not None and self.format != "hub":
                raise refuse(
                    f"has no effect with data.format={self.format}; set data.{name} to null, or choose data.format=hub",
                    f"data.{name}",
                    "data.format",
                )
        return self

    @model_validator(mode="after")
    def _source_is_given(self, info: ValidationInfo) -> Self:
        if not (info.context or {}).get("source_required"):
            return self
        parts = [self.train, self.validation, self.test]
        if self.path is None and not any(parts):
            raise refuse(
                "must be given; if each split has its own file, give data.train instead, and at least one of "
                "data.validation and data.test",
                "data.path",
            )
        if self.path is not None and any(parts):
            raise refuse(
                "cannot be combined with separate files; leave out data.path, or leave out data.train, "
                "data.validation and data.test",
                "data.path",
            )
        if self.path is None and self.train is None:
            raise refuse("must be given, because data.validation or data.test is given", "data.train")
        if self.path is None and not (self.validation or self.test):
            raise refuse(
                "must be given together with data.validation or data.test; for a single file, set data.path instead of "
                "data.train",
                "data.train",
            )
        return self


class TextClassificationConfig(FilesConfig):
    """The settings for texts with one label each, from CSV, TSV or JSON lines, or from the Hugging Face hub."""

    name: Literal["text_classification"]
    format: Literal["auto", "csv", "tsv", "jsonl", "hub"]
    header: bool | None
    text_column: Column | None
    label_column: Column | None
    tokens: Literal["words", "characters"]
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    max_length: Annotated[int, Field(ge=1, le=1_000_000)]
    max_cut_share: Share


class LanguageModellingConfig(FilesConfig):
    """The settings for continuous text, from plain text files or from the Hugging Face hub."""

    lengths_differ: ClassVar[bool] = False

    name: Literal["language_modelling"]
    format: Literal["text", "hub"]
    text_column: Column | None
    for_the_hub: ClassVar[tuple[str, ...]] = ("subset", "text_column")
    tokens: Literal["words", "characters", "subwords"]
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    context: Annotated[int, Field(ge=1, le=1_000_000)]
    validation_fraction: Annotated[float, Field(gt=0, lt=1)]
    test_fraction: Fraction

    @model_validator(mode="after")
    def _training_text_is_left(self) -> Self:
        if self.validation_fraction + self.test_fraction >= 1:
            raise refuse(
                "data.validation_fraction + data.test_fraction must be less than 1, given "
                f"{self.validation_fraction} + {self.test_fraction}; the training split gets the rest",
                "data.validation_fraction",
                "data.test_fraction",
            )
        return self

    @model_validator(mode="after")
    def _has_bytes(self) -> Self:
        if self.tokens == "subwords" and (self.max_size is None or self.max_size < 256):
            raise refuse(
                f"must be at least 256 with data.tokens=subwords, given {self.max_size}; each byte is a token",
                "data.max_size",
                "data.tokens",
            )
        return self


class TaggingConfig(FilesConfig):
    """The settings for sentences with one tag per word, from column files or from the Hugging Face hub."""

    name: Literal["tagging"]
    format: Literal["columns", "hub"]
    word_column: Column
    tag_column: Column
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    ending_length: Annotated[int, Field(ge=0, le=100)]
    max_length: Annotated[int, Field(ge=1, le=1_000_000)]

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        needed, allowed = (str, "a name") if self.format == "hub" else (int, "a number from 0")
        for key, column in (("data.word_column", self.word_column), ("data.tag_column", self.tag_column)):
            if not isinstance(column, needed):
                raise refuse(f"must be {allowed} with data.format={self.format}, given {column!r}", key, "data.format")
        return self

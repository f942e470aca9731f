"""The class of the learning task for each value of data.name."""

from model.tasks.classification import Classification
from model.tasks.language_modelling import LanguageModelling
from model.tasks.sequence_to_sequence import SequenceToSequence
from model.tasks.tagging import Tagging
from model.tasks.task import Task

TASKS: dict[str, type[Task]] = {
    "digits": Classification,
    "text_classification": Classification,
    "tagging": Tagging,
    "language_modelling": LanguageModelling,
    "translation": SequenceToSequence,
    "generated": SequenceToSequence,
}

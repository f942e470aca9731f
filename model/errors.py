"""The errors that the model and its trainer raise."""


class ModelError(Exception):
    """The root of this package's errors."""


class DataError(ModelError, ValueError):
    """The user's data cannot be used; the message is one line with the place of the error and what to do."""


class Diverged(ModelError, ArithmeticError):  # noqa: N818 -- searches recognize this name
    """The training loss became NaN or infinite."""


class OutOfMemoryError(ModelError, MemoryError):
    """The memory was not enough for one update."""


class SequenceTooLongError(ModelError, ValueError):
    """A sequence has more tokens than the network has positions."""


class CheckpointError(ModelError, ValueError):
    """A checkpoint folder is missing, incomplete or belongs to another configuration."""


class FormatError(CheckpointError):
    """A checkpoint folder, or a training state, has another format than this version reads."""

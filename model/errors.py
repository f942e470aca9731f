"""The errors that the model and its trainer raise."""


class ModelError(Exception):
    """The base class of this package's errors."""


class DataError(ModelError, ValueError):
    """The user's data cannot be used; the message says in one line where the error is and what to do."""


class Diverged(ModelError, ArithmeticError):  # noqa: N818 -- searches recognize this name
    """The training loss or the validation loss became NaN or infinite."""


class OutOfMemoryError(ModelError, MemoryError):
    """An update or an evaluation needed more memory than was free."""


class SequenceTooLongError(ModelError, ValueError):
    """A sequence has more tokens than the network has positions."""


class CheckpointError(ModelError, ValueError):
    """A checkpoint folder or a training state is missing, incomplete or changed, or belongs to other settings."""


class FormatError(CheckpointError):
    """A checkpoint folder or a training state has a format that this version cannot read."""

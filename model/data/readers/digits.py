"""Reads scikit-learn's handwritten digits; each of the eight rows of an image is a token of eight numbers."""

from pathlib import Path

from model.config.data import DigitsConfig
from model.data.examples import Examples, File


def read_digits(config: DigitsConfig) -> Examples:  # noqa: ARG001 -- every reader takes its configuration
    """Return 1,797 images; an example is `{"rows": 8 x 8 whole numbers 0..16, "label": "0" ... "9"}`.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository,
    1998 (the test split), https://doi.org/10.24432/C50P49, as shipped with scikit-learn.
    """
    import sklearn
    import sklearn.datasets  # imported here, because it takes a second to load, and only digits need it

    bunch = sklearn.datasets.load_digits()
    labels = [str(label) for label in bunch.target.tolist()]
    rows = bunch.images.astype(int).tolist()
    path = Path(sklearn.datasets.__file__).parent / "data" / "digits.csv.gz"
    return Examples(
        source="scikit-learn load_digits (UCI, Optical Recognition of Handwritten Digits, test part)",
        licence="CC BY 4.0",
        files=(File.of(f"sklearn/datasets/data/{path.name}", path.read_bytes()),),
        items=[{"rows": image, "label": label} for image, label in zip(rows, labels, strict=True)],
        labels=labels,
        parts=None,
        version=f"as in scikit-learn {sklearn.__version__}",
    )

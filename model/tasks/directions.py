"""For each metric, whether higher or lower values are better; the direction is the same for all learning tasks."""

from typing import Literal

Direction = Literal["maximize", "minimize"]

DIRECTIONS: dict[str, Direction] = {
    "accuracy": "maximize",
    "macro_f1": "maximize",
    "exact_match": "maximize",
    "bleu": "maximize",
    "chrf": "maximize",
    "loss": "minimize",
    "perplexity": "minimize",
    "bits_per_character": "minimize",
    "bits_per_byte": "minimize",
    "token_error_rate": "minimize",
    "parameters": "minimize",
    "cost_per_example": "minimize",
    "model_bytes": "minimize",
    "examples_per_second": "maximize",
}

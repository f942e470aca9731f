"""The network sizes that `hpo scale` compares; each has twice the width or depth of the previous size."""

from typing import Literal

from pydantic import ValidationError

from model.config.networks.network import EncoderDecoder, ModelConfig

Growing = Literal["width", "depth"]

_COUNT, _LEAST_LAYERS = 4, 2
# The rules of `parametrize` hold for wide networks; this is the smallest width at which they were measured.
_LEAST_WIDTH = 32


def scales_of(model: ModelConfig, over: Growing) -> list[dict[str, int]]:
    """Return four scales, each as a dict of new values by dotted key of the configuration.

    With `over="width"`, each scale has twice the widths of the previous scale. The widths are the settings that the
    family's `BaseShape` names, such as d_model. The first scale has half of the configured widths. If half of d_model
    is below 32, or the halved widths are not valid, the first scale has the configured widths.

    With `over="depth"`, the scales have 2, 4, 8 and 16 layers.
    """
    if over == "depth":
        has_decoder = isinstance(model, EncoderDecoder) and model.num_decoder_layers is not None
        keys = ("num_layers", "num_decoder_layers") if has_decoder else ("num_layers",)
        smallest = dict.fromkeys(keys, _LEAST_LAYERS)
    else:
        own: dict[str, int] = {key: getattr(model, key) for key in type(model.base).model_fields if key != "num_layers"}
        half = {key: width // 2 for key, width in own.items()}
        is_whole = all(width % 2 == 0 for width in own.values())
        smallest = half if is_whole and half["d_model"] >= _LEAST_WIDTH and _fits(model, half) else own
    return [{f"model.{key}": 2**power * size for key, size in smallest.items()} for power in range(_COUNT)]


def _fits(model: ModelConfig, changes: dict[str, int]) -> bool:
    try:
        type(model).model_validate(model.model_dump() | changes)
    except ValidationError:
        return False
    return True

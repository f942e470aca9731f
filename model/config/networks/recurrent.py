"""The configuration of recurrent networks."""

from typing import Literal, Self

from pydantic import model_validator

from model.config.networks.network import BaseShape, Decoder, Encoder, EncoderDecoder, ModelConfig, Width
from model.config.section import refuse


class RecurrentBase(BaseShape):
    """The base shape of a recurrent network."""

    hidden_width: Width = 128


class RecurrentConfig(ModelConfig):
    """Layers of LSTM or GRU cells."""

    base: RecurrentBase = RecurrentBase()
    family: Literal["recurrent"]
    cell: Literal["lstm", "gru"]
    hidden_width: Width


class Reading(RecurrentConfig):
    """A recurrent network with an encoder."""

    bidirectional: bool

    @model_validator(mode="after")
    def _halves(self) -> Self:
        if self.bidirectional and self.hidden_width % 2:
            raise refuse(
                f"half of it is of each direction: must be even, given {self.hidden_width}",
                "model.hidden_width",
                "model.bidirectional",
            )
        return self


class RecurrentEncoder(Reading, Encoder):
    """Reads a sequence from its beginning, and with `bidirectional` from its end too."""

    @model_validator(mode="after")
    def _pools_what_was_read(self) -> Self:
        if self.pooling == "first" and not self.bidirectional:
            raise refuse(
                "is what was read of the first token alone: must be mean or max, or choose model.bidirectional=true",
                "model.pooling",
                "model.bidirectional",
            )
        return self


class RecurrentDecoder(RecurrentConfig, Decoder):
    """Predicts each next token from those before it."""

    @model_validator(mode="after")
    def _ties(self) -> Self:
        _refuse_tied(self, self.tied_embeddings)
        return self


class RecurrentEncoderDecoder(Reading, EncoderDecoder):
    """An encoder, and a decoder that starts where the encoder ended, attends to its output, or both."""

    attention: Literal["none", "mlp", "dot", "bilinear"]
    attention_width: Width | None
    attend: Literal["before", "after"]
    input_feeding: bool
    bridge: Literal["zero", "copy", "mlp"]
    reverse_source: bool

    @property
    def goes_token_by_token(self) -> bool:
        """Whether a token's input depends on what the token before gave."""
        return self.attend == "before" or self.input_feeding

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        _refuse_tied(self, self.tied_embeddings)
        if self.attention == "none":
            if self.input_feeding:
                raise refuse(
                    "without attention nothing can be fed: must be false",
                    "model.input_feeding",
                    "model.attention",
                )
            if self.bridge == "zero":
                raise refuse(
                    "without attention the source reaches the decoder by the bridge alone: must be copy or mlp",
                    "model.bridge",
                    "model.attention",
                )
            if self.attend == "before":
                raise refuse("has no effect without attention: must be after", "model.attend", "model.attention")
        if self.attention != "mlp" and self.attention_width is not None:
            raise refuse(
                f"has an effect with model.attention=mlp alone: must be null, given {self.attention_width}",
                "model.attention_width",
                "model.attention",
            )
        if self.attend == "before" and self.input_feeding:
            raise refuse(
                "an attention before the cell feeds it already: must be false", "model.input_feeding", "model.attend"
            )
        if self.reverse_source and self.bidirectional:
            raise refuse(
                "has no effect on an encoder that reads in both directions: must be false",
                "model.reverse_source",
                "model.bidirectional",
            )
        if self.bridge == "copy" and self.decoder_layers != self.num_layers:
            raise refuse(
                f"copies each layer's last state: needs as many layers in the decoder, given {self.decoder_layers} for "
                f"{self.num_layers}; model.bridge=mlp takes any number",
                "model.num_decoder_layers",
                "model.bridge",
            )
        return self


def _refuse_tied(config: RecurrentConfig, is_tied: bool) -> None:
    if is_tied and config.d_model != config.hidden_width:
        raise refuse(
            f"the head is the embedding: needs equal widths, given d_model {config.d_model} and hidden_width "
            f"{config.hidden_width}",
            "model.tied_embeddings",
            "model.d_model",
            "model.hidden_width",
        )

"""The configuration of recurrent networks."""

from typing import Literal, Self

from pydantic import model_validator

from model.config.networks.network import BaseShape, Decoder, Encoder, EncoderDecoder, ModelConfig, Width
from model.config.section import refuse


class RecurrentBase(BaseShape):
    """The size of a recurrent base network; see `BaseShape`."""

    hidden_width: Width = 128


class RecurrentConfig(ModelConfig):
    """The settings of a network of LSTM or GRU cells."""

    base: RecurrentBase = RecurrentBase()
    family: Literal["recurrent"]
    cell: Literal["lstm", "gru"]
    hidden_width: Width


class Reading(RecurrentConfig):
    """The settings of a recurrent network with an encoder."""

    bidirectional: bool

    @model_validator(mode="after")
    def _halves(self) -> Self:
        if self.bidirectional and self.hidden_width % 2:
            raise refuse(
                f"must be even, given {self.hidden_width}; each direction has half of the width",
                "model.hidden_width",
                "model.bidirectional",
            )
        return self


class RecurrentEncoder(Reading, Encoder):
    """The settings of an encoder that reads a sequence from start to end; with `bidirectional`, in both directions."""

    @model_validator(mode="after")
    def _pools_what_was_read(self) -> Self:
        if self.pooling == "first" and not self.bidirectional:
            raise refuse(
                "must be 'mean' or 'max' with model.bidirectional=false, because the first output depends only on the "
                "first token; change model.pooling, or set model.bidirectional=true",
                "model.pooling",
                "model.bidirectional",
            )
        return self


class RecurrentDecoder(RecurrentConfig, Decoder):
    """The settings of a decoder that predicts each token from the previous tokens."""

    @model_validator(mode="after")
    def _ties(self) -> Self:
        _refuse_tied(self, self.tied_embeddings)
        return self


class RecurrentEncoderDecoder(Reading, EncoderDecoder):
    """The settings of a recurrent encoder and decoder.

    The decoder gets the encoder's result through the decoder's initial state, through attention, or through both.
    """

    attention: Literal["none", "mlp", "dot", "bilinear"]
    attention_width: Width | None
    attend: Literal["before", "after"]
    input_feeding: bool
    bridge: Literal["zero", "copy", "mlp"]
    reverse_source: bool

    @property
    def goes_token_by_token(self) -> bool:
        """Whether the decoder's cells read the result of attention, and so run token by token."""
        return self.attend == "before" or self.input_feeding

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        _refuse_tied(self, self.tied_embeddings)
        if self.attention == "none":
            if self.input_feeding:
                raise refuse(
                    "must be false with model.attention=none, because input feeding passes the result of attention "
                    "to the next step",
                    "model.input_feeding",
                    "model.attention",
                )
            if self.bridge == "zero":
                raise refuse(
                    "must be 'copy' or 'mlp' if model.attention=none, because without attention only the bridge "
                    "connects encoder and decoder",
                    "model.bridge",
                    "model.attention",
                )
            if self.attend == "before":
                raise refuse(
                    "must be 'after' with model.attention=none, because model.attend has no effect without attention",
                    "model.attend",
                    "model.attention",
                )
        if self.attention != "mlp" and self.attention_width is not None:
            raise refuse(
                f"must be null, given {self.attention_width}; only model.attention=mlp uses this setting",
                "model.attention_width",
                "model.attention",
            )
        if self.attend == "before" and self.input_feeding:
            raise refuse(
                "must be false with model.attend=before, because the cells then always read the result of attention",
                "model.input_feeding",
                "model.attend",
            )
        if self.reverse_source and self.bidirectional:
            raise refuse(
                "must be false with model.bidirectional=true, because model.reverse_source has no effect on an encoder "
                "that reads in both directions",
                "model.reverse_source",
                "model.bidirectional",
            )
        if self.bridge == "copy" and self.decoder_layers != self.num_layers:
            raise refuse(
                f"must be {self.num_layers} with model.bridge=copy, given {self.decoder_layers}; this bridge copies "
                f"the state of each layer; change the number, or choose model.bridge=mlp",
                "model.num_decoder_layers",
                "model.bridge",
            )
        return self


def _refuse_tied(config: RecurrentConfig, is_tied: bool) -> None:
    if is_tied and config.d_model != config.hidden_width:
        raise refuse(
            f"must be false if model.d_model and model.hidden_width differ, given {config.d_model} and "
            f"{config.hidden_width}; with true, the head and the embedding have the same weights",
            "model.tied_embeddings",
            "model.d_model",
            "model.hidden_width",
        )

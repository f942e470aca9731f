"""Builds the encoder and the decoder of the configured family of networks."""

from model.config.networks.convolutional import ConvolutionalConfig
from model.config.networks.network import EncoderDecoder, ModelConfig
from model.config.networks.recurrent import RecurrentConfig
from model.config.networks.transformer import TransformerConfig
from model.networks.bodies import DecoderBody, EncoderBody
from model.networks.convolutional.decoder import ConvolutionalDecoder
from model.networks.convolutional.encoder import ConvolutionalEncoder
from model.networks.recurrent.decoder import RecurrentDecoder
from model.networks.recurrent.encoder import RecurrentEncoder
from model.networks.transformer.stack import Stack


def build_encoder(config: ModelConfig) -> EncoderBody:
    """Return the encoder of the configured network; `config.shape` must be encoder or encoder_decoder."""
    match config:
        case RecurrentConfig():
            return RecurrentEncoder(config)
        case ConvolutionalConfig():
            return ConvolutionalEncoder(config)
        case _:
            assert isinstance(config, TransformerConfig)
            return Stack(config, config.num_layers)


def build_decoder(config: ModelConfig) -> DecoderBody:
    """Return the decoder of the configured network; `config.shape` must be decoder or encoder_decoder.

    With encoder_decoder, the decoder also reads the output of the encoder.
    """
    match config:
        case RecurrentConfig():
            return RecurrentDecoder(config)
        case ConvolutionalConfig():
            return ConvolutionalDecoder(config)
        case _:
            assert isinstance(config, TransformerConfig)
            if isinstance(config, EncoderDecoder):
                return Stack(config, config.decoder_layers, causal=True, has_source=True)
            return Stack(config, config.num_layers, causal=True)

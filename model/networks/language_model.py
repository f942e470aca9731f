"""A network that predicts each next token of a text."""

from torch import Tensor, nn

from model.config.networks.network import Decoder
from model.networks.bodies import State
from model.networks.embedding import InputEmbedding, Reader, TokenHead
from model.networks.families import build_decoder
from model.networks.initialise import initialise


class LanguageModel(nn.Module):
    """An embedding, a decoder, and a head over the vocabulary.

    Source: Radford et al. 2018, "Improving language understanding by generative pre-training".
    """

    def __init__(self, config: Decoder, *, vocabulary_size: int, max_length: int) -> None:
        super().__init__()
        tied = config.tied_embeddings
        self.embedding = InputEmbedding(
            config, vocabulary_size=vocabulary_size, features=None, max_length=max_length, is_tied=tied
        )
        self.decoder = build_decoder(config)
        self.head = TokenHead(config, self.decoder.width, vocabulary_size, self.embedding if tied else None)
        initialise(self)

    def forward(self, tokens: Tensor, read: Reader | None = None) -> Tensor:
        """Return the logits of each next token.

        Args:
            tokens: (batch, time) token numbers, with padding at the end.
            read: a function with two arguments, the head's input and the head. If it is given, return its result
                instead of the logits.

        Returns:
            (batch, time, vocabulary): at position t the logits of token t + 1.
        """
        decoded = self.decoder(self.embedding(tokens))
        return self.head(decoded) if read is None else read(decoded, self.head)

    def begin(self) -> State:
        """Return the state before the first token."""
        return self.decoder.begin()

    def advance(self, tokens: Tensor, state: State) -> Tensor:
        """Append tokens to the tokens in `state`; return, for each appended token, the logits of the next token."""
        return self.head(self.decoder(self.embedding(tokens, state.length), state=state))

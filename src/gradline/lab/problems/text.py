"""A transformer and an LSTM that learn the names of Unicode's characters, character by character.

They come with Python, and the database of Unicode 3.2 is the same in every version of it: the text is fixed.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from gradline.lab.problems.supervised import Part, Split, build_task, plain_task
from gradline.lab.problems.task import Task

CONTEXT = 24
UNITS = 64
"""Units of the LSTM."""
WIDTH = 32
HEADS = 4
LAYERS = 2
MEASURED = 150
"""Windows of text that losses and errors are measured on."""


class Block(nn.Module):
    """Attention to the past and a perceptron, each after a LayerNorm and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        parts = self.mix(self.norms[0](x)).unflatten(2, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        added: Tensor = self.perceptron(self.norms[1](x))
        return x + added


class Transformer(nn.Module):
    """Characters in, scores of the next characters out."""

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.symbol = nn.Embedding(symbols, WIDTH)
        self.place = nn.Parameter(0.1 * torch.randn(CONTEXT, WIDTH))
        self.layers = nn.Sequential(*(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, symbols))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length) to scores (batch, length, symbols)."""
        scores: Tensor = self.layers(self.symbol(x) + self.place)
        return scores


def names() -> list[str]:
    """Return the names of the characters below U+3000, in a random order with a fixed seed."""
    known = unicodedata.ucd_3_2_0
    found = [known.name(chr(code), "") for code in range(0x20, 0x3000)]
    listed = [name for name in found if name]
    return [listed[place] for place in np.random.default_rng(0).permutation(len(listed))]


@cache
def _encoded() -> tuple[int, Tensor]:
    """Return the number of symbols and the text as symbol numbers."""
    text = "\n".join(names())
    symbols = {symbol: number for number, symbol in enumerate(sorted(set(text)))}
    return len(symbols), torch.tensor([symbols[symbol] for symbol in text])


def _part(piece: Tensor, stride: int) -> Part:
    """Return windows of text as inputs, and the characters that follow as targets."""
    windows = piece.unfold(0, CONTEXT + 1, stride)
    return Part(windows[:, :-1], windows[:, 1:])


def build(seed: int) -> Task:
    """Build the task."""
    symbols, encoded = _encoded()
    train, test = encoded.tensor_split((len(encoded) * 9 // 10,))
    parts = _part(train, 8), _part(test, CONTEXT)
    return plain_task(seed, lambda: Transformer(symbols), *parts, _next_losses, _next_errors, MEASURED)


class Recurrent(nn.Module):
    """An LSTM: characters in, scores of the next characters out."""

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.symbol = nn.Embedding(symbols, WIDTH)
        self.cells = nn.LSTM(WIDTH, UNITS, batch_first=True)
        self.out = nn.Linear(UNITS, symbols)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.cells(self.symbol(x))[0])
        return scores


@cache
def _split() -> tuple[int, Split]:
    """Return the number of symbols and windows of text: 80% for training, 10% each for validation and testing."""
    symbols, encoded = _encoded()
    pieces = encoded.tensor_split((len(encoded) * 8 // 10, len(encoded) * 9 // 10))
    return symbols, Split(*map(_part, pieces, (8, CONTEXT, CONTEXT)))


def _next_losses(scores: Tensor, following: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.mT, following, reduction="none").mean(dim=1)


def _next_errors(scores: Tensor, following: Tensor) -> Tensor:
    return (scores.argmax(dim=2) != following).double().mean(dim=1)


def build_transformer(seed: int) -> Task:
    """Build the task of the transformer, with validation and test text."""
    symbols, parts = _split()
    return build_task(seed, lambda: Transformer(symbols), parts, _next_losses, _next_errors)


def build_lstm(seed: int) -> Task:
    """Build the task of the LSTM, with validation and test text."""
    symbols, parts = _split()
    return build_task(seed, lambda: Recurrent(symbols), parts, _next_losses, _next_errors)

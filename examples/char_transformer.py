"""A character-level transformer that learns to write like Python's own documentation, and then writes.

    python examples/char_transformer.py
    python examples/char_transformer.py --steps 3000 --file my.txt

There is no learning rate, no warm-up and no schedule.
"""

from __future__ import annotations

import argparse
import builtins
import inspect
from pathlib import Path

import torch
from torch import Tensor, nn

import gradline


def documentation() -> str:
    """The docstrings of Python's built-in types and functions, and of the methods of the types."""
    texts: dict[str, None] = {}  # keeps their order, and each of them once
    for name in sorted(vars(builtins)):
        thing = getattr(builtins, name)
        parts = [thing] if not isinstance(thing, type) else [thing, *vars(thing).values()]
        texts.update(dict.fromkeys(inspect.getdoc(part) or "" for part in parts if callable(part)))
    return "\n\n".join(texts)


class Transformer(nn.Module):
    """Characters in, scores of the next characters out."""

    def __init__(self, symbols: int, context: int, width: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.symbol = nn.Embedding(symbols, width)
        self.place = nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.score = nn.Linear(width, symbols)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        past_only = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.symbol(x) + self.place(torch.arange(length))
        return self.score(self.layers(hidden, mask=past_only, is_causal=True))

    @torch.no_grad()
    def write(self, start: Tensor, length: int, temperature: float = 0.7) -> Tensor:
        """Go on from some symbols, one at a time."""
        text = start
        for _ in range(length):
            scores = self(text[None, -self.context :])[0, -1] / temperature
            text = torch.cat([text, torch.multinomial(scores.softmax(dim=0), 1)])
        return text


def main(arguments: list[str] | None = None) -> tuple[float, str]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="learn from this text instead")
    parser.add_argument("--steps", type=int, default=600, help="passes through the loop: one gradient each")
    parser.add_argument("--context", type=int, default=48)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    text = options.file.read_text(encoding="utf-8") if options.file else documentation()
    symbols = sorted(set(text))
    place = {symbol: number for number, symbol in enumerate(symbols)}
    encoded = torch.tensor([place[symbol] for symbol in text])
    split = len(encoded) * 9 // 10
    windows, held_out = (part.unfold(0, options.context + 1, 1) for part in (encoded[:split], encoded[split:]))
    model = Transformer(len(symbols), options.context, options.width, options.layers)

    def loss_of(window: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())

    optimizer = gradline.Angle(model.parameters())
    for done in range(1, options.steps + 1):
        batch = windows[torch.randint(len(windows), (options.batch_size,))]
        optimizer.zero_grad()
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        if done % max(options.steps // 8, 1) == 0 or done == options.steps:
            with optimizer.eval(), torch.no_grad():  # with the average of the weights
                held = loss_of(held_out[:: options.context]).item()
            print(
                f"{done:5} steps: loss {loss.item():.3f}, of held-out text {held:.3f}, "
                f"step size {optimizer.param_groups[0]['lr']:.2g}"
            )

    with optimizer.eval():
        written = model.write(encoded[: options.context], 300)[options.context :]
    sample = "".join(symbols[number] for number in written)
    print(f"\n{sample}")
    return held, sample


if __name__ == "__main__":
    main()

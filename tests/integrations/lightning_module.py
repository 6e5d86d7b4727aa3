"""A small user of Lightning, and the same training by hand."""

import lightning.pytorch as pl
import torch
from torch import nn

import gradline
from gradline.torch.integrations.lightning import LineSearchCallback

BATCHES, SIZE, EPOCHS = 8, 16, 6


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(BATCHES * SIZE, 4, generator=generator)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    return Loader(zip(inputs.split(SIZE), targets.split(SIZE), strict=True))


class Loader:
    """The same batches in each epoch, from where a checkpoint left off."""

    def __init__(self, batches):
        self.batches = list(batches)
        self.begin = self.position = 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        begin, self.begin = self.begin, 0
        for place in range(begin, len(self)):
            self.position = (place + 1) % len(self)  # before the batch is used, and Lightning may save
            yield self.batches[place]

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state_dict):
        self.begin = state_dict["position"]


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


class Module(pl.LightningModule):
    """What a user writes; nothing in it knows of line searches but `configure_optimizers`."""

    def __init__(self, make=network, optimizer=gradline.GOLSI, **options):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = make()
        self.build = lambda: optimizer(self.parameters(), **options)

    def loss(self, batch):
        inputs, targets = batch
        return nn.functional.mse_loss(self.net(inputs), targets)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.loss(batch))

    def predict_step(self, batch, batch_idx):
        return self.net(batch[0])

    def configure_optimizers(self):
        return self.build()

    def values(self):
        return [p.detach().clone() for p in self.parameters()]


class Validated(Module):
    """The same with validation."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.val_losses = []

    def validation_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("val_loss", loss)
        self.val_losses.append(loss.item())


def trainer(**options):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    return pl.Trainer(**{"accelerator": "cpu", "devices": 1, "logger": False, "max_epochs": EPOCHS, **quiet, **options})


def fit(module, *others, val=None, ckpt_path=None, train=None, **options):
    """Train with the callback."""
    made = trainer(callbacks=[LineSearchCallback(), *others], **options)
    made.fit(module, data() if train is None else train, val, ckpt_path=ckpt_path)
    return made


def by_hand(module, epochs=EPOCHS, clip=None, accumulate=1, after_epoch=None):
    """The same training without Lightning: one closure for each batch, or for each few batches, and none other."""
    optimizer = module.build()
    batches = data().batches
    for _ in range(epochs):
        for first in range(0, len(batches), accumulate):

            def closure():
                optimizer.zero_grad()
                for batch in batches[first : first + accumulate]:
                    loss = module.loss(batch) / accumulate
                    loss.backward()
                if clip is not None:
                    nn.utils.clip_grad_norm_(module.parameters(), clip)
                return loss

            optimizer.step(closure)
        if after_epoch is not None:
            with optimizer.eval():
                after_epoch()
    optimizer.eval()
    return optimizer

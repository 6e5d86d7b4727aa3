"""Data-parallel training, alone or with torchrun. Each process has its own part of the data.

    python examples/ddp.py
    torchrun --nproc-per-node 2 examples/ddp.py --checkpoint ddp.pt
    torchrun --nproc-per-node 2 examples/ddp.py --checkpoint ddp.pt --epochs 20    # resumes

DistributedDataParallel averages the gradients, so that all processes take equal steps.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import gradline


def train(options: argparse.Namespace, rank: int, processes: int) -> float:
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    samples = TensorDataset(images[:1500], labels[:1500])
    sampler = DistributedSampler(samples, num_replicas=processes, rank=rank, seed=0)
    loader = DataLoader(samples, batch_size=options.batch_size // processes, sampler=sampler)

    bare = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    model: nn.Module = DistributedDataParallel(bare) if dist.is_initialized() else bare
    optimizer = gradline.Angle(model.parameters())

    begin, error = 0, float("nan")
    if options.checkpoint and options.checkpoint.exists():
        saved = torch.load(options.checkpoint, weights_only=True)
        bare.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["epoch"]
        if rank == 0:
            print(f"resuming after epoch {begin}")
    for epoch in range(begin, options.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        with optimizer.eval(), torch.no_grad():  # with the average of the weights; on all ranks
            error = (bare(images[1500:]).argmax(dim=1) != labels[1500:]).float().mean().item()
        if rank == 0:
            print(
                f"epoch {epoch + 1:2}: loss {loss.item():.4f}, test error {error:.1%}, "
                f"step size {optimizer.param_groups[0]['lr']:.3g}"
            )
            if options.checkpoint:  # outside eval(): the weights that training continues from
                parts = {"model": bare.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
                torch.save(parts, options.checkpoint)

    mine = f"rank {rank}: {optimizer.iterations} steps, the last {optimizer.param_groups[0]['lr']!r}"
    lines = [mine] * processes
    if dist.is_initialized():
        dist.all_gather_object(lines, mine)  # two processes that print at once would mix their lines
    if rank == 0:
        print("\n".join(lines))
    return error


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=100, help="of all processes together")
    parser.add_argument("--checkpoint", type=Path, help="save there after each epoch; resume from there")
    options = parser.parse_args(arguments)
    if "RANK" not in os.environ:  # not started by torchrun
        return train(options, rank=0, processes=1)
    dist.init_process_group("gloo")
    try:
        return train(options, dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Trains the storyteller and resumes where an earlier run stopped.

    python train.py --train TRAIN.npy --valid VALID.npy --run RUN_DIR [--decay-at T --end-at T]

The token files come from tokenizer.py. RUN_DIR receives checkpoint.pt (written beside its place,
then renamed, so a stopped process never leaves half a file) and log.tsv. SIGTERM or Ctrl-C ends the run
after its current step with a checkpoint. The learning rate is
constant after a short warm-up; from --decay-at to --end-at (local ISO times) it falls linearly to
zero by the clock, so a run ends well at a chosen time whatever the machine's speed. Other settings
may change between one start and the next: batch and context are taken from the command line.
"""

import argparse
import math
import os
import signal
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import torch

from model import Storyteller
from muon import Muon


class Windows:
    """Windows of a token file without repetition: one pass visits every token once, in random order,
    and each pass cuts at another offset. The position is counted in tokens, so that the window
    length may change between starts."""

    def __init__(self, path, length, seed=1):
        self.ids = np.load(path, mmap_mode="r")
        self.length, self.seed = length, seed
        self.epoch, self.used, self.order = 0, 0, None

    def next(self, count):
        windows = (len(self.ids) - self.length) // self.length
        out = np.empty((count, self.length + 1), dtype=np.int64)
        for row in range(count):
            if self.order is None or self.used + self.length > windows * self.length:
                if self.order is not None:
                    self.epoch, self.used = self.epoch + 1, 0
                rng = np.random.default_rng([self.seed, self.epoch, self.length])
                self.offset = int(rng.integers(self.length))
                self.order = rng.permutation(windows)
            start = int(self.order[self.used // self.length]) * self.length + self.offset
            start = min(start, len(self.ids) - self.length - 1)
            out[row] = self.ids[start : start + self.length + 1]
            self.used += self.length
        return torch.from_numpy(out)


def make_optimisers(model, args):
    """Muon for the matrices inside layers; AdamW for embedding, head, router and norms."""
    stacks, matrices, rest = [], [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if name.endswith("gate_up_proj"):
            stacks.append(p)
        elif p.dim() >= 2 and not name.endswith(("embed_tokens.weight", "lm_head.weight", "gate.weight")):
            matrices.append(p)
        else:
            rates = {"embed_tokens.weight": 0.01, "lm_head.weight": 0.004, "gate.weight": 0.002}
            rate = next((r for end, r in rates.items() if name.endswith(end)), 0.004)
            rest.append({"params": [p], "lr": rate * args.adam_scale})
    muon = Muon(
        [{"params": matrices}, {"params": stacks, "parts": 2}], lr=args.muon_lr, weight_decay=args.weight_decay
    )
    adam = torch.optim.AdamW(rest, betas=(0.9, 0.98), eps=1e-10, weight_decay=0.0)
    for optimiser in (muon, adam):
        for group in optimiser.param_groups:
            group["peak"] = group["lr"]
    return muon, adam


def rate_factor(step, now, args):
    """Share of the peak learning rate: warm-up by steps, decay by the clock."""
    factor = min(1.0, (step + 1) / args.warmup)
    if args.decay_at and now > args.decay_at:
        factor *= max(0.0, (args.end_at - now) / (args.end_at - args.decay_at))
    return factor


def update_biases(model, rate):
    """Auxiliary-loss-free balancing: raise the bias of experts below the mean load, lower the others.
    Returns the busiest expert's load as a multiple of the mean, over all layers."""
    worst = 0.0
    for moe in model.moe_layers():
        load = moe.gate.load.float()
        moe.gate.e_score_correction_bias += rate * torch.sign(load.mean() - load)
        worst = max(worst, (load.max() / load.mean()).item())
    return worst


@torch.no_grad()
def validate(model, path, length, count=64):
    """Nats per token over evenly spaced windows of the held-out books."""
    ids = np.load(path, mmap_mode="r")
    starts = np.linspace(0, len(ids) - length - 1, count).astype(int)
    total = 0.0
    for group in np.split(starts, count // 8):
        batch = torch.from_numpy(np.stack([ids[s : s + length + 1] for s in group]).astype(np.int64))
        total += model.loss(batch).item() * len(group)
    return total / count


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    moment = lambda text: datetime.fromisoformat(text).timestamp()
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--valid", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4096, help="tokens per step")
    parser.add_argument("--micro", type=int, default=4096, help="tokens per forward pass")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-scale", type=float, default=1.0)
    parser.add_argument("--weight-decay", type=float, default=0.02)
    parser.add_argument("--bias-rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--decay-at", type=moment)
    parser.add_argument("--end-at", type=moment)
    parser.add_argument("--quantise-below", type=float, default=0.5,
                        help="train through NVFP4 once the rate is below this share of its peak")
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--every", type=int, default=250, help="steps between validations and checkpoints")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


class Run:
    """Everything a checkpoint holds, and how to write and read it."""

    def __init__(self, args):
        self.args, self.path = args, args.run / "checkpoint.pt"
        self.model = Storyteller()
        self.optimisers = make_optimisers(self.model, args)
        self.data = Windows(args.train, args.context)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        args.run.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self.resume()
        self.log = open(args.run / "log.tsv", "a", buffering=1)

    def resume(self):
        state = torch.load(self.path, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimiser, name in zip(self.optimisers, ("muon", "adam")):
            chosen = [(g["peak"], g["weight_decay"]) for g in optimiser.param_groups]  # the command line wins
            optimiser.load_state_dict(state[name])
            for group, (peak, decay) in zip(optimiser.param_groups, chosen):
                group["peak"], group["weight_decay"] = peak, decay
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        # With another window length the pass goes on in a new order, from the same share of it.
        self.data.epoch, self.data.used = state["epoch"], state["used"]

    def save(self):
        muon, adam = self.optimisers
        state = {"model": self.model.state_dict(), "muon": muon.state_dict(), "adam": adam.state_dict(),
                 "step": self.step, "tokens": self.tokens, "seconds": self.seconds,
                 "epoch": self.data.epoch, "used": self.data.used}
        temporary = self.path.with_suffix(".tmp")
        torch.save(state, temporary)
        os.replace(temporary, self.path)

    def train_step(self, factor):
        """One update at `factor` of the peak rates. Returns the loss and the busiest expert's load."""
        args, model = self.args, self.model
        self.quantise(factor < args.quantise_below and self.step >= args.warmup)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["peak"] * factor
        passes = max(1, args.batch // args.micro)
        rows = min(args.batch, args.micro) // args.context
        loss_sum, worst = 0.0, 0.0
        for _ in range(passes):
            loss = model.loss(self.data.next(rows)) / passes
            loss.backward()
            loss_sum += loss.item()
            worst = max(worst, update_biases(model, args.bias_rate / passes * min(1.0, 4 * factor)))
        if not math.isfinite(loss_sum):
            raise SystemExit(f"loss is {loss_sum} at step {self.step}; the last checkpoint is intact")
        for optimiser in self.optimisers:
            optimiser.step()
        model.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += passes * rows * args.context
        return loss_sum, worst

    def quantise(self, on):
        for moe in self.model.moe_layers():
            moe.experts.quantise = on

    def report_validation(self, note=""):
        loss = validate(self.model, self.args.valid, self.args.context)
        self.log.write(f"{self.step}\t{self.tokens}\tvalid {loss:.4f}{note}\n")

    def train(self):
        """Until the end by the clock, the last step asked for, or a signal."""
        args, stop = self.args, []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.append(True))
        losses, mark, mark_tokens = [], time.time(), self.tokens
        while not stop and self.step != args.max_steps:
            now = time.time()
            if args.end_at and now >= args.end_at:
                break
            factor = rate_factor(self.step, now, args)
            loss, worst = self.train_step(factor)
            losses.append(loss)
            self.seconds += time.time() - now
            if self.step % 50 == 0:
                rate = (self.tokens - mark_tokens) / (time.time() - mark)
                self.log.write(f"{self.step}\t{self.tokens}\t{np.mean(losses):.4f}\tlr {factor:.3f}\tload {worst:.2f}"
                               f"\t{rate:.0f} tok/s\t{self.seconds:.0f} s\n")
                losses, mark, mark_tokens = [], time.time(), self.tokens
            if self.step % args.every == 0:
                self.save()
                self.report_validation()
                mark, mark_tokens = time.time(), self.tokens
        self.save()


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # near-zero probabilities would otherwise slow the products down
    torch.manual_seed(1)
    run = Run(args)
    run.log.write(f"# start {datetime.now():%F %T} step {run.step} {vars(args)}\n")
    run.train()
    run.quantise(False)
    run.report_validation("\tend, not quantised")
    run.quantise(True)
    run.report_validation("\tend, experts in NVFP4")


if __name__ == "__main__":
    main()

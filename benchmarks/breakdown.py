"""Where the time of local training goes, on one thread: `OMP_NUM_THREADS=1 python -m benchmarks.breakdown`.

For each network of the jobs the trainer that a run takes is profiled over some clients, and what torch's operators took
is put in groups. Beside it stands the machine's own limit: the same operations by one large product, and by the
convolutions and products of these shapes alone, which is the most that any arrangement of these kernels can come to.
Watching takes time of its own, most of it between operators.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.configuration import text_of
from benchmarks.job import Job
from benchmarks.runners.limit import product
from onlooker import config
from onlooker.engines.engine import trainer_of
from onlooker.engines.process import playing_alone
from onlooker.methods.trainer import Descend, Trainer
from onlooker.round import Study

_CLIENTS = {"mlp": 200, "cnn": 20, "cifar": 4}
_GROUPS = {
    "products": ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::addmv_", "aten::addmv"),
    "convolutions": ("aten::mkldnn_convolution", "aten::convolution_backward"),
    "pooling": ("aten::max_pool2d_with_indices", "aten::max_pool2d_with_indices_backward"),
    "activations": ("aten::relu_", "aten::clamp_min", "aten::clamp_min_", "aten::threshold_backward", "aten::softmax",
                    "aten::_softmax", "aten::_log_softmax", "aten::_log_softmax_backward_data"),
    "memory": ("aten::copy_", "aten::fill_", "aten::zero_", "aten::index_select", "aten::index", "aten::cat"),
}  # fmt: skip


def study_of(name: str) -> Study:
    """A job's study."""
    return config.study(config.prepare(config.parse(text_of(Job(name, 10, 2)), []), Path()), torch.device("cpu"))


def play(study: Study, trainer: Trainer, count: int) -> float:
    """Seconds that one client takes: training, and its row encoded and added."""
    method, (channel,) = study.method, study.method.terms.channels_of(0)
    received, sums, clients = study.model.initial(0), channel.empty(), study.federation.clients
    started = time.perf_counter()
    for client in range(count):
        stream = study.source.stream("local training", 1, f"client:{client}")
        ask = Descend(method.descent, received, clients[client % len(clients)], stream)
        (row,) = trainer.answer([ask])
        channel.gather(sums, row, client, 1, study.source)
    return (time.perf_counter() - started) / count


def broken_down(name: str) -> None:
    """Print one network's table."""
    study, count = study_of(name), _CLIENTS[name]
    trainer = trainer_of(study.engine.trainer, study.model, torch.device("cpu"))
    play(study, trainer, 2)
    rates, seconds = [product()], [play(study, trainer, count) for _ in range(3)]
    rates.append(product())
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        whole = play(study, trainer, count)
    spent = dict.fromkeys((*_GROUPS, "other operators"), 0.0)
    for event in watched.key_averages():
        group = next((group for group, names in _GROUPS.items() if event.key in names), "other operators")
        spent[group] += event.self_cpu_time_total / 1e6 / count
    kernels, alone = spent["products"] + spent["convolutions"], min(seconds)
    spent["between operators"] = whole - sum(spent.values())
    rate = max(rates)
    ideal = Job(name, 1, 1).operations / rate / 1e9
    print(
        f"{name} ({study.engine.trainer}): {1e3 * alone:.2f} ms a client, {100 * ideal / alone:.0f} % of the rate of a"
    )
    print(f"large product ({rate:.0f} GFLOP/s); watched, {1e3 * whole:.2f} ms, of which")
    for group, one in sorted(spent.items(), key=lambda pair: -pair[1]):
        print(f"  {group:<18}{1e3 * one:8.3f} ms{100 * one / whole:6.0f} %")
    bound = ideal / alone * whole / kernels  # by shares, for the machine is not as fast in one minute as in the next
    print(f"  if all but products and convolutions took nothing: {100 * bound:.0f} % of that rate\n")


def main() -> None:
    """Those that are named; all where none is."""
    with playing_alone():
        for name in sys.argv[1:] or _CLIENTS:
            broken_down(name)


if __name__ == "__main__":
    main()

"""The job by pfl (Apple), with its own Gaussian mechanism at the centre, in one process."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.job import Job, all_records, records_of
from benchmarks.protocol import asked, report
from benchmarks.torch_networks import build

os.environ.setdefault("PFL_PYTORCH_DEVICE", "cpu")

import pfl
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.privacy import CentrallyAppliedPrivacyMechanism
from pfl.privacy.gaussian_mechanism import GaussianMechanism

_NEVER = 10**9


class _Module(torch.nn.Module):
    """The network with the loss that pfl asks a module for."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.network = build(job.network)

    def loss(self, features: torch.Tensor, labels: torch.Tensor, eval: bool = False) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.network(features), labels)

    def metrics(self, features: torch.Tensor, labels: torch.Tensor, eval: bool = False) -> dict[str, Any]:
        return {}


class _Clock(TrainingProcessCallback):
    def __init__(self) -> None:
        self.stamps: list[float] = []

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.stamps.append(time.time())
        return False, Metrics()


def _federation(job: Job) -> FederatedDataset:
    all_records(job)

    def client(number: Any) -> Dataset:
        features, labels = records_of(job.name, int(number), job.records)
        return Dataset(raw_data=(torch.from_numpy(features), torch.from_numpy(labels)), user_id=str(number))

    return FederatedDataset(client, get_user_sampler("random", list(range(job.clients))))


def main() -> None:
    """Play the job."""
    job, options = asked(threads=1)
    torch.set_num_threads(options.threads)
    federation, module, clock = _federation(job), _Module(job), _Clock()
    noise = CentrallyAppliedPrivacyMechanism(GaussianMechanism(job.clip, job.noise))
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=job.rounds,
            evaluation_frequency=_NEVER,
            train_cohort_size=job.cohort,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(federation, federation, postprocessors=[WeightByUser(), noise]),
        model=PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(
            local_learning_rate=job.learning_rate, local_num_epochs=1, local_batch_size=job.batch
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=512),
        callbacks=[clock],
    )
    report(clock.stamps, {"pfl": pfl.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main()

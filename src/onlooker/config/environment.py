"""What a run folder says of where and on what a run began."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from typing import TYPE_CHECKING, Any

from onlooker import __version__
from onlooker.config.build import Prepared
from onlooker.privacy.forecast import forecast

if TYPE_CHECKING:
    from onlooker.round import Study


def environment(prepared: Prepared, study: Study, name: str, warnings: list[str]) -> dict[str, Any]:
    """What `env.json` says of a simulation: enough to tell what ran, on what, with whose versions."""
    from onlooker.engines import cores

    played = {
        "seed": prepared.configuration.task.seed,
        "device": str(study.device),
        "engine": {
            "name": study.engine.name,
            "trainer": study.engine.trainer,
            "workers": study.engine.workers or cores(),
            "elided": study.elides,
        },
    }
    return _environment(prepared, name, warnings, len(study.federation.test), played)


def deployed(prepared: Prepared, name: str, warnings: list[str], tested: int) -> dict[str, Any]:
    """What `env.json` says of a deployment, as far as its coordinator knows.

    Args:
        prepared: the job.
        name: of the run.
        warnings: about it.
        tested: how many public rows the model is evaluated on.
    """
    return _environment(prepared, name, warnings, tested, {"seed": "system", "deployment": True})


def _environment(
    prepared: Prepared, name: str, warnings: list[str], tested: int, played: dict[str, Any]
) -> dict[str, Any]:
    import torch

    configuration, description = prepared.configuration, prepared.description
    packages = ("numpy", "scipy", "torch", "dp-accounting", "cryptography", "safetensors", "pydantic")
    return {
        "onlooker": __version__,
        "name": name,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: importlib.metadata.version(package) for package in packages},
        "threads": torch.get_num_threads(),
        **played,
        "task": configuration.task.method,
        "data": {
            "name": description.name,
            "clients": configuration.data.clients,
            "partition": configuration.data.partition,
            "test-records": tested,
            "preprocessing": list(description.preprocessing),
            "uncharged": list(description.uncharged),
        },
        "model": {"name": configuration.model.name, "parameters": prepared.size},
        **({"groups": list(names)} if (names := prepared.agreement.group_names) else {}),
        "observers": list(prepared.agreement.observers),
        "target-epsilon": prepared.agreement.target,
        "printed": prepared.printed,
        "forecast": forecast(prepared.agreement.terms).sentence(),
        "warnings": warnings,
    }

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
    """What `env.json` says: enough to tell what ran, on what, with whose versions."""
    import torch

    from onlooker.engines import cores

    configuration, description = prepared.configuration, prepared.description
    packages = ("numpy", "scipy", "torch", "dp-accounting", "cryptography", "safetensors", "pydantic")
    return {
        "onlooker": __version__,
        "name": name,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: importlib.metadata.version(package) for package in packages},
        "seed": configuration.task.seed,
        "threads": torch.get_num_threads(),
        "device": str(study.device),
        "engine": {
            "name": study.engine.name,
            "trainer": study.engine.trainer,
            "workers": study.engine.workers or cores(),
            "elided": study.elides,
        },
        "task": configuration.task.method,
        "data": {
            "name": description.name,
            "clients": configuration.data.clients,
            "partition": configuration.data.partition,
            "test-records": len(study.federation.test),
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

"""`onlooker new`: a folder that `flwr run` takes as an app, with a job that can be planned as it is."""

from __future__ import annotations

import re
from pathlib import Path

from onlooker import __version__
from onlooker.errors import FolderError

_PYPROJECT = """\
# An app of Flower without code of its own: whoever runs a SuperNode runs nothing but Onlooker's.
[project]
name = "{name}"
version = "1.0.0"
description = "Federated learning with one epsilon for every observer"
license = "Apache-2.0"
dependencies = ["onlooker[flower]>={version}"]

[tool.flwr.app]
publisher = "{name}"

[tool.flwr.app.components]
serverapp = "onlooker.flower:server_app"
clientapp = "onlooker.flower:client_app"

[tool.flwr.app.config]
coordinator = ""         # the whole path of coordinator.toml on the machine of the SuperLink
"""

_JOB = """\
# What all parties agree on; docs/configuration.md has every key. `onlooker plan job.toml` prices it.
[task]
method = "dp-sgd"
rounds = 10

[data]
name = "digits"          # comes with scikit-learn; your own rows: "csv", and data.columns for all columns
clients = 4
expected-records = 350   # public: the records that a client is taken to have

[model]
name = "logistic"

[training]
learning-rate = 3.0

[sampling.records]
rate = 0.2

[servers]
count = 2
corrupt = 1
min-batch = 3            # one client may be away

[privacy]
epsilon = 4.0            # for every named observer that can have a guarantee
delta = 1e-4
clip = 1.0
observers = ["public", "client:1", "coordinator", "aux:0", "aux:1", "aux:0+aux:1"]
"""

_README = """\
# {name}
A trial on one machine, offline; docs/deploy.md of Onlooker is about several. `pip install "onlooker[flower]"` first.

```sh
onlooker plan job.toml                              # who will learn what
onlooker keys trial --job job.toml                  # everybody's keys and files
```

Each of these in a terminal of its own, the last two once for each client (0 to 3, with a port each):

```sh
export FLWR_HOME=$PWD/trial/flwr FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
onlooker serve trial/aux0.toml
onlooker serve trial/aux1.toml
flower-superlink --port 9090 --enable-supernode-auth --disable-runtime-dependency-installation \\
  --ssl-certfile trial/coordinator/tls.pem --ssl-keyfile trial/coordinator/tls-key.pem \\
  --ssl-ca-certfile trial/authority.pem
onlooker client trial/client0.toml
flower-supernode --superlink 127.0.0.1:9090 --root-certificates trial/authority.pem --port 9091 \\
  --auth-supernode-private-key trial/client0/supernode --node-config "client='$PWD/trial/client0/socket'"
```

A SuperNode is let in once it is registered (`supernode.pub` of each client), by whoever runs the SuperLink, whose
`$FLWR_HOME/config.toml` says where that is:

```toml
[superlink]
default = "trial"
[superlink.trial]
address = "127.0.0.1:9090"
root-certificates = "THE WHOLE PATH OF trial/authority.pem"
```

```sh
flwr supernode register trial/client0/supernode.pub trial
flwr run . trial --stream --run-config "coordinator='$PWD/trial/coordinator.toml'"
onlooker report trial/coordinator/run
onlooker verify-transcript trial/aux0.toml          # in a deployment, the server's own auditor
```

A run that was cut short goes on by the same `flwr run`.
"""

_KEEP_OUT = """\
# Keys, budgets and run folders stay where they are: what is listed here is not sent to SuperNodes either.
trial/
runs/
"""


def make(folder: Path) -> None:
    """Write the folder.

    Args:
        folder: made; must not be there yet. Its name becomes that of the app.

    Raises:
        FolderError: if it is there, or cannot be written, or its name could not be an app's.
    """
    name = folder.resolve().name
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,38}[a-z0-9]", name):
        raise FolderError(f'"{name}" cannot name an app; name a folder in small letters, digits and "-".')
    files = {
        "pyproject.toml": _PYPROJECT.format(name=name, version=__version__),
        "job.toml": _JOB,
        "README.md": _README.format(name=name),
        ".gitignore": _KEEP_OUT,
    }
    try:
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise FolderError(f"{folder} is there already; name a folder that is not.") from error
    except OSError as error:
        raise FolderError(f"{folder} cannot be made: {error.strerror}; name another folder.") from error

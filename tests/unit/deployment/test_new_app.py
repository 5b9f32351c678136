"""The folder that `onlooker new` writes is an app to Flower, and a job to `onlooker plan`."""

from __future__ import annotations

import zipfile
from io import BytesIO

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate
from typer.testing import CliRunner

from onlooker.cli import app
from onlooker.deployment.new import make
from onlooker.errors import FolderError


def said(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_flower_takes_the_folder_as_an_app(tmp_path):
    assert said("new", tmp_path / "four-sites").exit_code == 0
    found, warnings = load_and_validate(tmp_path / "four-sites" / "pyproject.toml")
    assert found["project"]["name"] == "four-sites" and not warnings
    assert found["tool"]["flwr"]["app"]["config"] == {"coordinator": ""}


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own
def test_what_is_sent_to_supernodes_holds_nobody_s_keys_nor_files(tmp_path):
    folder = tmp_path / "app"
    make(folder)
    for place in ("trial/client0.toml", "trial/coordinator/signing.pem", "runs/one/run.toml"):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text("")
    with zipfile.ZipFile(BytesIO(build_fab_from_disk(folder))) as fab:
        names = {name for name in fab.namelist() if not name.startswith(".info")}
    assert names == {"pyproject.toml", "README.md", "job.toml"}


def test_its_job_can_be_planned_and_its_keys_made(tmp_path):
    make(tmp_path / "app")
    planned = said("plan", tmp_path / "app" / "job.toml", "--json")
    assert planned.exit_code == 0 and '"epsilon": 3.99' in planned.stdout, planned.output
    made = said("keys", tmp_path / "app" / "trial", "--job", tmp_path / "app" / "job.toml")
    assert made.exit_code == 0 and (tmp_path / "app" / "trial" / "client3" / "supernode.pub").is_file()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("taken", "is there already; name a folder"), ("Big_One", '"Big_One" cannot name an app'), ("x", '"x" cannot')],
)
def test_a_folder_that_will_not_do_is_one_sentence(tmp_path, name, sentence):
    (tmp_path / "taken").mkdir()
    with pytest.raises(FolderError, match=sentence):
        make(tmp_path / name)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="file/app cannot be made: .*; name another folder"):
        make(tmp_path / "file" / "app")

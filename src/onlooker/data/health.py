"""Three clinical sets with natural clients: Heart Disease, Parkinsons Telemonitoring and TCGA-BRCA.

Every range and list of codes is a constant written here, from the documentation of the set or from what the
quantity can be, rounded; none is computed when rows are read (rule 16 of `docs/privacy.md`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from onlooker.data.columns import (
    LEVELS,
    MISSING_VALUES,
    RANGES,
    Code,
    Column,
    Number,
    encode,
    rescaled,
    width,
    words,
)
from onlooker.data.federation import DataSettings, Description, Pool
from onlooker.data.files import Folder, Table, damaged, read_table
from onlooker.data.partition import held_out, held_out_persons
from onlooker.types import Examples

_HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_HEART_FIELDS = words("age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal num")
_HEART_COLUMNS: tuple[Column, ...] = (
    Number("age", 20, 90),
    Number("sex", 0, 1),
    Number("trestbps", 80, 220, may_miss=True, absent="0"),
    Number("chol", 80, 640, may_miss=True, absent="0"),
    Number("thalach", 60, 220, may_miss=True),
    Number("oldpeak", -3, 7, may_miss=True),
    Number("fbs", 0, 1, may_miss=True),
    Number("exang", 0, 1, may_miss=True),
    Number("ca", 0, 3, may_miss=True),
    Code("cp", (1, 2, 3, 4)),
    Code("restecg", (0, 1, 2)),
    Code("slope", (1, 2, 3)),
    Code("thal", (3, 6, 7)),
)
HEART_DISEASE = Description(
    name="heart-disease",
    shape=(width(_HEART_COLUMNS),),
    outputs=2,
    task="classification",
    preprocessing=(
        RANGES,
        LEVELS,
        MISSING_VALUES,
        "a blood pressure or cholesterol of 0 counts as missing",
        "the label is 1 where any disease was found (num above 0)",
        "the test set is a fifth of each hospital's rows, drawn at random",
    ),
)
_HEART_FOLDER = Folder(
    "heart-disease",
    tuple(f"processed.{hospital}.data" for hospital in _HOSPITALS),
    "the processed files of the Heart Disease set of the UCI repository",
)


def read_heart_disease(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """Heart Disease: 920 patients of four hospitals, which are its natural clients.

    Raises:
        DataError: if a file is missing, damaged or holds a value that its documentation does not list.
    """
    tables = [read_table(path, _HEART_FIELDS) for path in _HEART_FOLDER.find(settings.root)]
    features = np.concatenate([encode(_HEART_COLUMNS, table) for table in tables])
    labels = np.concatenate([(table.numbers("num") > 0).astype(np.int64) for table in tables])
    owners = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return _split(Examples(features, labels), owners, generator)


_PARKINSONS_COLUMNS: tuple[Number, ...] = (
    Number("age", 30, 90),
    Number("sex", 0, 1),
    Number("test_time", 0, 240),
    Number("Jitter(%)", 0, 0.1),
    Number("Jitter(Abs)", 0, 0.0005),
    Number("Jitter:RAP", 0, 0.06),
    Number("Jitter:PPQ5", 0, 0.07),
    Number("Jitter:DDP", 0, 0.2),
    Number("Shimmer", 0, 0.3),
    Number("Shimmer(dB)", 0, 3),
    Number("Shimmer:APQ3", 0, 0.2),
    Number("Shimmer:APQ5", 0, 0.2),
    Number("Shimmer:APQ11", 0, 0.3),
    Number("Shimmer:DDA", 0, 0.5),
    Number("NHR", 0, 1),
    Number("HNR", 0, 40),
    Number("RPDE", 0, 1),
    Number("DFA", 0.5, 1),
    Number("PPE", 0, 1),
)
_UPDRS_LIMIT = 176
PARKINSONS = Description(
    name="parkinsons",
    shape=(width(_PARKINSONS_COLUMNS),),
    outputs=1,
    task="regression",
    preprocessing=(
        RANGES,
        f"the label is total_UPDRS, mapped from the limits of that scale, 0 to {_UPDRS_LIMIT}, to [-1, 1]: "
        f"an error of 0.1 is {_UPDRS_LIMIT / 20:g} points",
        "the test set is a fifth of each patient's recordings, drawn at random",
    ),
)
PARKINSONS_BY_PERSONS = replace(
    PARKINSONS,
    preprocessing=(
        *PARKINSONS.preprocessing[:-1],
        "the test set is all recordings of a fifth of the patients, drawn at random",
    ),
)
_PARKINSONS_FOLDER = Folder(
    "parkinsons",
    ("parkinsons_updrs.data",),
    "the Parkinsons Telemonitoring set of the UCI repository by A. Tsanas and M. Little",
)


def read_parkinsons(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """Parkinsons Telemonitoring: 5,875 recordings of 42 patients, who are its persons and its natural clients.

    Raises:
        DataError: if the file is missing, damaged or lacks a column.
    """
    (path,) = _PARKINSONS_FOLDER.find(settings.root)
    names = ("subject#", "total_UPDRS", *(column.name for column in _PARKINSONS_COLUMNS))
    table = read_table(path).require(*names)
    labels = rescaled(table.numbers("total_UPDRS"), 0, _UPDRS_LIMIT).astype(np.float32)
    owners = np.unique(table.numbers("subject#"), return_inverse=True)[1].astype(np.int64)
    examples = Examples(encode(_PARKINSONS_COLUMNS, table), labels, persons=owners)
    if not settings.whole_persons:
        return _split(examples, owners, generator)
    train, test = held_out_persons(owners, 0.2, generator)
    return Pool(examples.take(train), examples.take(test), owners=owners[train])


def _split(examples: Examples, owners: NDArray[np.int64], generator: np.random.Generator) -> Pool:
    train, test = held_out(owners, 0.2, generator)
    return Pool(examples.take(train), examples.take(test), owners=owners[train])


TCGA_BRCA = Description(
    name="tcga-brca",
    shape=(39,),
    outputs=2,
    task="classification",
    preprocessing=(
        "age is mapped from the fixed public range 18 to 90 to [-1, 1]; other features are 0/1 in the files",
        "the label is whether a death was observed: patients who left the study alive count as 0 however "
        "short they were followed, because a Cox likelihood compares patients and is no sum over records",
        "the split into regions, training and test is the published one of FLamby",
    ),
)
_TCGA_FOLDER = Folder(
    "tcga-brca",
    ("brca.csv", "train_test_split.csv"),
    "the clinical table of TCGA-BRCA and its split as published with FLamby's Fed-TCGA-BRCA",
)


def read_tcga_brca(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """TCGA-BRCA: 1,088 patients of six regions, its natural clients; a classification, no survival model.

    Raises:
        DataError: if a file is missing, damaged or lacks a column or a patient.
    """
    del generator
    patients, split = (read_table(path) for path in _TCGA_FOLDER.find(settings.root))
    patients.require("pid", "E", "T", "age_at_index")
    columns = [
        Number(name, 18, 90) if name == "age_at_index" else Number(name)
        for name in patients.columns
        if name not in ("pid", "E", "T")
    ]
    if width(columns) != TCGA_BRCA.shape[0]:
        raise damaged(patients.path, f"it has {width(columns)} features where {TCGA_BRCA.shape[0]} are known")
    folds = split.require("pid", "fold2").places("fold2", _FOLDS)
    rows = _rows_of(split.columns["pid"], patients)
    examples = Examples(encode(columns, patients), patients.numbers("E").astype(np.int64))
    train = folds < len(_FOLDS) // 2
    return Pool(examples.take(rows[train]), examples.take(rows[~train]), owners=folds[train])


_FOLDS = (*(f"train_{region}" for region in range(6)), *(f"test_{region}" for region in range(6)))


def _rows_of(barcodes: tuple[str, ...], patients: Table) -> NDArray[np.int64]:
    rows = {barcode: row for row, barcode in enumerate(patients.columns["pid"])}
    unknown = next((barcode for barcode in barcodes if barcode not in rows), None)
    if unknown is not None:
        raise damaged(patients.path, f'it lacks the patient "{unknown}" of the split')
    return np.array([rows[barcode] for barcode in barcodes], dtype=np.int64)

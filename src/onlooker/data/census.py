"""Adult: who earns more than 50,000 dollars, from the census of 1994.

Every range and list of levels is a constant written here, from the documentation of the set; none is computed
when rows are read (rule 16 of `docs/privacy.md`).
"""

from __future__ import annotations

import numpy as np

from onlooker.data.columns import (
    LEVELS,
    MISSING_VALUES,
    RANGES,
    Category,
    Column,
    Number,
    encode,
    width,
    words,
)
from onlooker.data.federation import DataSettings, Description, Pool
from onlooker.data.files import Folder, Table, read_table
from onlooker.types import Examples

_ADULT_FIELDS = words(
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)
_ADULT_COLUMNS: tuple[Column, ...] = (
    Number("age", 15, 90),
    Number("education-num", 1, 16),
    Number("capital-gain", 0, 100_000, logarithmic=True),
    Number("capital-loss", 0, 5_000, logarithmic=True),
    Number("hours-per-week", 0, 100),
    Category(
        "workclass",
        words("Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"),
        may_miss=True,
    ),
    Category(
        "marital-status",
        words("Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"),
    ),
    Category(
        "occupation",
        words(
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
            "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv "
            "Armed-Forces"
        ),
        may_miss=True,
    ),
    Category("relationship", words("Wife Own-child Husband Not-in-family Other-relative Unmarried")),
    Category("race", words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")),
    Category("sex", words("Female Male")),
    Category(
        "native-country",
        words(
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
            "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico "
            "Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary "
            "Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong "
            "Holand-Netherlands"
        ),
        may_miss=True,
    ),
)
ADULT = Description(
    name="adult",
    shape=(width(_ADULT_COLUMNS),),
    outputs=2,
    task="classification",
    preprocessing=(
        RANGES,
        "capital gain and loss are scaled by log(1 + amount)",
        LEVELS,
        MISSING_VALUES,
        "fnlwgt, a census weight, and education, which repeats education-num, are left out",
        "the label is 1 for an income above 50,000 dollars",
    ),
)
_ADULT_FOLDER = Folder(
    "adult", ("adult.data", "adult.test"), "the Adult set of the UCI repository by B. Becker and R. Kohavi"
)


def read_adult(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """Adult: 32,561 + 16,281 people of the census of 1994, split as published.

    Raises:
        DataError: if a file is missing, damaged or holds a value that its documentation does not list.
    """
    del generator
    train, test = (read_table(path, _ADULT_FIELDS) for path in _ADULT_FOLDER.find(settings.root))
    return Pool(_adult_rows(train), _adult_rows(test))


def _adult_rows(table: Table) -> Examples:
    # The test file ends its labels in a full stop, the training file does not.
    places = table.places("income", ("<=50K", "<=50K.", ">50K", ">50K."))
    return Examples(encode(_ADULT_COLUMNS, table), places // 2)

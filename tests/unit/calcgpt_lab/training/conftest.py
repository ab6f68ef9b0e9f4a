"""A data set for the trainings of this folder."""

from pathlib import Path

import pytest

from calcgpt_lab.data.dataset import DatasetPlan, generate


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    generate(folder, DatasetPlan(train=500, val=50, test=50, seed=1), progress=False)
    return folder

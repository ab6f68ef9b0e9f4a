"""Pages for the previews of links."""

import io
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from calcgpt.export import dares
from calcgpt.export.web import PAGE
from calcgpt.switches import Goal

GOALS = [
    Goal(problem="24/3", answer="830", parts=["1.n81"]),
    Goal(problem="5-3", answer="-22", parts=["1.2"]),
]


def test_each_goal_has_a_page_with_its_own_title_and_picture(tmp_path: Path) -> None:
    template = (PAGE / "off.html").read_text("utf-8")
    pages = dares.write_dares(tmp_path, template, GOALS)
    titles = ["says 24 ÷ 3 = 830", "says 5 − 3 = −22"]
    for number, (page, title) in enumerate(zip(pages, titles, strict=True)):
        html = page.read_text("utf-8")
        assert html.count(title) == 3  # the title, that of the preview, and what the picture is
        assert f'content="dare-{number}.png"' in html
        assert (tmp_path / f"dare-{number}.png").exists()
        assert html.count("\n") == template.count("\n")


@pytest.mark.parametrize(("problem", "answer"), [("7+8", "14"), ("81/9", "-1.5"), ("9*9", "6")])
def test_a_picture_has_the_dots_of_the_problem_and_the_answer(problem: str, answer: str) -> None:
    image = matplotlib.image.imread(io.BytesIO(dares.draw(problem, answer)))[..., :3]
    assert image.shape == (dares.HEIGHT, dares.WIDTH, 3)
    colours = np.frombuffer(dares.COLOURS, np.uint8).reshape(3, 3) / 255
    n_dots = [
        sum(bin(row).count("1") for character in text for row in dares.GLYPHS[character])
        for text in (f"{problem}=", answer)
    ]
    counts = [np.isclose(image, colour, atol=1e-3).all(axis=-1).sum() for colour in colours[1:]]
    scale = round((counts[0] / n_dots[0]) ** 0.5)
    assert counts == [n * scale**2 for n in n_dots]

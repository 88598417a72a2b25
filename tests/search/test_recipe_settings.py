"""Settings behind a portfolio's name: what they change, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import falsifier

from falsifier.errors import InputError
from falsifier.search.coverage.neurons import Neurons
from falsifier.search.mutators.pgd import Pgd
from falsifier.search.portfolio import stages_of
from falsifier.search.recipe_settings import recipe_of
from falsifier.search.recipes import our_recipe, paper_recipe
from falsifier.search.scaling.anisotropic import Anisotropic
from falsifier.search.scaling.dynamic import Dynamic
from falsifier.search.scaling.fixed import Fixed
from falsifier.search.scaling.isotropic import Isotropic
from falsifier.search.stages.fuzzing import Fuzzing
from falsifier.testing.contracts import some_batch


@pytest.mark.parametrize("portfolio", ["paper", "fuzzing"])
@pytest.mark.parametrize(
    ("settings", "scaling"),
    [
        (["scaling=fixed"], Fixed(0.01)),
        (["scaling=fixed", "step=0.25"], Fixed(0.25)),
        (["step=0.3", "scaling=isotropic"], Isotropic(0.3)),
        (["scaling=anisotropic"], Anisotropic(0.1)),
        ([" scaling = dynamic ", "step=0.5"], Dynamic(0.5)),
    ],
)
def test_scalings_and_their_steps(portfolio: str, settings: list[str], scaling: Any) -> None:
    recipe = recipe_of(portfolio, settings)
    assert recipe.scaling == scaling
    batch = some_batch("numpy")
    np.testing.assert_array_equal(recipe.scaling.eta(batch), scaling.eta(batch))


def test_a_step_alone_is_that_of_the_portfolio_s_own_scaling() -> None:
    assert recipe_of("paper", ["step=0.2"]).scaling == Anisotropic(0.2)
    assert recipe_of("fuzzing", ["step=0.2"]).scaling == Dynamic(0.2)


def test_weights_steps_of_pgd_and_the_threshold_of_a_neuron() -> None:
    recipe = recipe_of("paper", ["pgd=3", "fgsm=0", "slopes=4", "threshold=0.5"])
    usual = {mutator.name: weight for mutator, weight in paper_recipe().mutators}
    assert {mutator.name: weight for mutator, weight in recipe.mutators} == {
        "pgd": 3.0,
        "boundary": usual["boundary"],
        "random": usual["random"],
    }
    assert recipe.mutators[0][0] == Pgd(4, scalar=True)
    assert recipe.coverage == [Neurons(0.5)]
    assert recipe.scaling == paper_recipe().scaling
    ours = recipe_of("fuzzing", ["slopes=7"])
    assert [mutator.slopes for mutator, _ in ours.mutators] == [
        7 if mutator.name == "pgd" else mutator.slopes for mutator, _ in our_recipe().mutators
    ]


def test_a_portfolio_with_settings_has_its_stages() -> None:
    assert [stage.name for stage in stages_of("fuzzing,step=0.2")] == ["probe", "fuzzing"]
    (stage,) = stages_of("paper,scaling=isotropic,step=0.05")
    assert isinstance(stage, Fuzzing)
    assert stage._recipe.scaling == Isotropic(0.05)


@pytest.mark.parametrize(
    ("portfolio", "says"),
    [
        ("standard,step=0.1", "standard has no settings; paper and fuzzing have"),
        ("paper,scaling=round", "no scaling 'round'; choose one of fixed, isotropic, anisotropic, dynamic"),
        ("paper,pace=1", "no setting 'pace=1'; write NAME=VALUE with one of scaling, step, slopes, threshold, pgd"),
        ("paper,climb=1", "no setting 'climb=1'"),
        ("paper,step", "no setting 'step'"),
        ("paper,", "no setting ''"),
        ("paper,step=0.1,step=0.2", "step is given twice"),
        ("paper,step=0", "step 0; give a positive number"),
        ("paper,step=nan", "step 'nan'; give a number, 0 or more"),
        ("fuzzing,step=2", "step 2; give a positive number, 1 at most"),
        ("paper,pgd=-1", "pgd '-1'; give a number, 0 or more"),
        ("paper,slopes=1.5", "slopes '1.5'; give a whole number, 1 or more"),
        ("paper,random=0,boundary=0", "leave some weight to boundary or random"),
        ("fuzzing,threshold=0.2", "threshold belongs to paper"),
    ],
)
def test_what_is_no_setting(portfolio: str, says: str) -> None:
    with pytest.raises(InputError) as told:
        stages_of(portfolio)
    assert str(told.value).startswith(f"portfolio {portfolio!r}: ")
    assert says in str(told.value)
    assert "\n" not in str(told.value)


def test_commands_take_them(tmp_path: Path) -> None:
    examples = Path(__file__).resolve().parents[2] / "examples"
    query, network = str(examples / "digits_violated.vnnlib"), str(examples / "digits.onnx")
    words = ["--max-evaluations", "20000", "--portfolio", "paper,scaling=isotropic,step=0.3,pgd=2"]
    done = falsifier("verify", query, "--network", network, *words)
    assert done.stdout.startswith("sat\n"), done.stderr
    (tmp_path / "instances.csv").write_text(f"{network},{query},20\n")
    done = falsifier("campaign", "instances.csv", "--out", "out", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ",sat," in (tmp_path / "out" / "results.csv").read_text()
    done = falsifier("campaign", "instances.csv", "--out", "other", "--portfolio", "paper,steps=2", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "other").exists()

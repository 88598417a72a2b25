"""What stands behind a portfolio's name: `paper,scaling=isotropic,step=0.05,pgd=3`, a recipe with settings of its own.

Paper A's experiments vary these: the scaling (12 to 14), the weights of the mutators (7), pgd's steps (8) and the
threshold of a neuron (17).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from falsifier.errors import InputError
from falsifier.search.coverage.neurons import Neurons
from falsifier.search.loop import Recipe
from falsifier.search.mutators.mutator import Mutator
from falsifier.search.mutators.pgd import Pgd
from falsifier.search.recipes import our_recipe, paper_recipe
from falsifier.search.scaling.anisotropic import Anisotropic
from falsifier.search.scaling.dynamic import Dynamic
from falsifier.search.scaling.fixed import Fixed
from falsifier.search.scaling.isotropic import Isotropic
from falsifier.search.scaling.scaling import Scaling

Weights = Sequence[tuple[Mutator, float]]

_RECIPES = {"paper": paper_recipe, "fuzzing": our_recipe}
_SCALINGS: dict[str, Callable[..., Scaling]] = {kind().name: kind for kind in (Fixed, Isotropic, Anisotropic, Dynamic)}
_OWN = ("scaling", "step", "slopes", "threshold")


def recipe_of(portfolio: str, settings: Sequence[str]) -> Recipe:
    """The recipe of `paper` or `fuzzing`, fresh, with settings `name=value`.

    scaling: fixed, isotropic, anisotropic or dynamic; step: its size, s, or for `fixed` units of the inputs; slopes:
    steps of pgd; threshold: that a neuron must exceed to fire, of `paper`; the name of a mutator: its weight.

    Raises InputError, in one line, for what is none of them.
    """
    origin = f"portfolio {','.join((portfolio, *settings))!r}"
    if portfolio not in _RECIPES:
        raise InputError(f"{origin}: {portfolio} has no settings; {' and '.join(_RECIPES)} have")
    recipe = _RECIPES[portfolio]()
    given = _given(settings, [*_OWN, *(mutator.name for mutator, _ in recipe.mutators)], origin)
    return replace(
        recipe,
        scaling=_scaling(recipe.scaling, given, origin),
        mutators=_mutators(recipe.mutators, given, origin),
        coverage=[_coverage(recipe, given, origin)] if "threshold" in given else recipe.coverage,
    )


def _given(settings: Sequence[str], names: Sequence[str], origin: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if name not in names or not equals:
            raise InputError(f"{origin}: no setting {text.strip()!r}; write NAME=VALUE with one of {', '.join(names)}")
        if name in given:
            raise InputError(f"{origin}: {name} is given twice")
        given[name] = value
    return given


def _scaling(usual: Scaling, given: dict[str, str], origin: str) -> Scaling:
    name = given.get("scaling", usual.name)
    if name not in _SCALINGS:
        raise InputError(f"{origin}: no scaling {name!r}; choose one of {', '.join(_SCALINGS)}")
    if "step" not in given:
        return _SCALINGS[name]() if "scaling" in given else usual
    step = _number("step", given["step"], origin)
    if step == 0 or (name == "dynamic" and step > 1):
        raise InputError(f"{origin}: step {step:g}; give a positive number{', 1 at most' if name == 'dynamic' else ''}")
    return _SCALINGS[name](step)


def _mutators(usual: Weights, given: dict[str, str], origin: str) -> Weights:
    steps = None
    if "slopes" in given:
        if not given["slopes"].isdecimal() or not int(given["slopes"]):
            raise InputError(f"{origin}: slopes {given['slopes']!r}; give a whole number, 1 or more")
        steps = int(given["slopes"])
    out: list[tuple[Mutator, float]] = []
    for mutator, weight in usual:
        weight = _number(mutator.name, given[mutator.name], origin) if mutator.name in given else weight
        if steps is not None and isinstance(mutator, Pgd) and mutator.name == Pgd.name:
            mutator = replace(mutator, slopes=steps)
        if weight > 0:
            out.append((mutator, weight))
    if all(mutator.slopes for mutator, _ in out):
        without = [mutator.name for mutator, _ in usual if not mutator.slopes]
        names = " or ".join(without)
        raise InputError(f"{origin}: leave some weight to {names}: where a network has no gradients nothing else works")
    return out


def _coverage(recipe: Recipe, given: dict[str, str], origin: str) -> Neurons:
    if not any(isinstance(coverage, Neurons) for coverage in recipe.coverage):
        raise InputError(f"{origin}: threshold belongs to paper, whose coverage counts neurons")
    return Neurons(_number("threshold", given["threshold"], origin))


def _number(name: str, text: str, origin: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{origin}: {name} {text!r}; give a number, 0 or more")
    return value

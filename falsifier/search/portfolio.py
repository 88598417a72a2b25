"""Portfolios: ordered, named lists of stages.

A portfolio is a generator: a stage is imported and made when the search first comes to it, so that an instance which
falls to the first points pays for no other stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from falsifier.errors import InputError
from falsifier.search.stage import Stage
from falsifier.search.stages.probe import Probe

if TYPE_CHECKING:
    from falsifier.search.loop import Recipe

_BESIDE = 0.05  # seconds of a first turn of the stages that a companion keeps for what its populations do not see


def standard() -> Iterator[Stage]:
    """Everything, the cheap first. Each stage says itself where it does not apply."""
    yield Probe()

    from falsifier.search.stages.enumerate import Enumeration
    from falsifier.search.stages.reach import Reach
    from falsifier.search.stages.screen import Screen
    from falsifier.search.stages.within import Within

    yield Screen()
    yield Enumeration()
    yield Reach()
    yield Within()

    from falsifier.search.stages.descent import Descent
    from falsifier.search.stages.evolution import Evolution
    from falsifier.search.stages.gradient import Gradient
    from falsifier.search.stages.sampling import Sampling

    yield Sampling()
    yield Descent()
    yield Evolution()
    yield Gradient()

    from falsifier.search.stages.flips import Flips
    from falsifier.search.stages.hopping import DilatedHopping, Hopping
    from falsifier.search.stages.last_bits import LastBits
    from falsifier.search.stages.nearest import Nearest

    yield DilatedHopping()
    yield Hopping()
    yield Flips()
    yield Nearest()
    yield LastBits()


def paper(recipe: Recipe | None = None) -> Iterator[Stage]:
    """Batch fuzzing as its paper has it, and nothing else: one lane for every specification
    (`recipes.paper_recipe`)."""
    from falsifier.search.recipes import paper_recipe
    from falsifier.search.stages.fuzzing import Fuzzing

    yield Fuzzing(recipe or paper_recipe(), name="paper")


def fuzzing(recipe: Recipe | None = None) -> Iterator[Stage]:
    """Batch fuzzing with its completions (`recipes.our_recipe`), after the first points."""
    yield Probe()

    from falsifier.search.recipes import our_recipe
    from falsifier.search.stages.fuzzing import Fuzzing

    yield Fuzzing(recipe or our_recipe(), lanes=0)


def restarts() -> Iterator[Stage]:
    """For a search beside one that runs `standard`: what draws, so that another random state makes a difference.

    Populations get more of the time than they do there, and the stages that decide by themselves are left out
    (`docs/decisions/023-companions.md`).
    """
    from falsifier.search.stages.hopping import DilatedHopping, Hopping
    from falsifier.search.stages.reach import Reach
    from falsifier.search.stages.within import Within

    yield Reach()
    yield Within()
    yield DilatedHopping(0.6)
    yield Hopping(0.3)

    from falsifier.search.stages.descent import Descent
    from falsifier.search.stages.evolution import Evolution
    from falsifier.search.stages.flips import Flips
    from falsifier.search.stages.gradient import Gradient
    from falsifier.search.stages.last_bits import LastBits
    from falsifier.search.stages.nearest import Nearest
    from falsifier.search.stages.sampling import Sampling

    yield Evolution()
    yield Gradient(_BESIDE)
    yield Flips(_BESIDE)
    yield Sampling(_BESIDE)
    yield Descent(_BESIDE)
    yield Nearest()
    yield LastBits()


PORTFOLIOS: dict[str, Callable[[], Iterable[Stage]]] = {
    "standard": standard,
    "paper": paper,
    "fuzzing": fuzzing,
    "restarts": restarts,
}


def stages_of(name: str) -> Iterator[Stage]:
    """The stages of a portfolio, fresh: a name above, or `module:function` for one that stands elsewhere.

    Settings may follow the names `paper` and `fuzzing`, as in `paper,scaling=fixed,step=0.05` (`recipe_settings`). The
    module is looked for where Python looks, and in the working folder. Raises InputError for what is not there.
    """
    if ":" in name:
        stages = _elsewhere(name)()
        if not isinstance(stages, Iterable):
            raise InputError(f"portfolio {name!r}: gives a {type(stages).__name__}; it has to give stages, in order")
        return iter(stages)
    first, *settings = name.split(",")
    if settings and first in PORTFOLIOS:
        from falsifier.search.recipe_settings import recipe_of

        recipe = recipe_of(first, settings)
        return paper(recipe) if first == "paper" else fuzzing(recipe)
    if name not in PORTFOLIOS:
        known = ", ".join(sorted(PORTFOLIOS))
        raise InputError(f"unknown portfolio {name!r}: choose one of {known}, or module:function of your own")
    return iter(PORTFOLIOS[name]())


def _elsewhere(name: str) -> Callable[[], Iterable[Stage]]:
    """A function of a module that is not ours."""
    import inspect
    import os
    import sys
    from importlib import import_module

    module, _, attribute = name.partition(":")
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        raise InputError(f"portfolio {name!r}: no module {module!r}, neither installed nor in {folder}") from None
    except ValueError:
        raise InputError(f"portfolio {name!r}: {module!r} is no name of a module") from None
    finally:
        sys.path.remove(folder)
    if not callable(found):
        raise InputError(f"portfolio {name!r}: {module} has no function {attribute!r} that gives stages")
    try:
        inspect.signature(found).bind()
    except TypeError:
        raise InputError(f"portfolio {name!r}: the function is called without arguments, and needs some") from None
    except ValueError:  # compiled functions need not say what they take
        pass
    portfolio: Callable[[], Iterable[Stage]] = found
    return portfolio

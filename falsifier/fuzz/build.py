"""Puts a fuzzer together from settings: network, space, what is watched, objective, mutators, coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.fuzz.coverage import Coverage
from falsifier.fuzz.fuzzer import Fuzzer
from falsifier.fuzz.loop import Runner
from falsifier.fuzz.mutators import Mutator
from falsifier.fuzz.objectives import Objective, Uphill
from falsifier.fuzz.settings import Settings
from falsifier.fuzz.space import Space, make_space
from falsifier.fuzz.watch import Seen, Watch, Watching, run_in_parts
from falsifier.input_file import read_text
from falsifier.network import Network, load
from falsifier.network.class_output import class_elements
from falsifier.network.reference import TensorInfo
from falsifier.network.work import work_per_lane

Array = NDArray[Any]

_LANES = (32, 4096)
_ASCENDING = 1024
_WORK = 4e7  # multiplications of a batch that is as large as it should be
_BYTES = 5e8  # of a batch's tensors
_WITHOUT_EXTRA = 1 << 15  # vectors that are kept where they are compared one by one for want of the extra
_TRIES = (100, 2000)  # runs of the original for making one hit small
_TRIED = 1e9  # multiplications of all of them together
_WATCHED = 8192  # activations that coverage by neurons or patterns sees, at most
_SAMPLES = 256  # points by which the threshold of coverage is measured
_SHARE = 0.05  # of the median squared distance between their vectors


def build(settings: Settings) -> Fuzzer:
    """Raises InputError for settings that do not fit the network or one another."""
    from falsifier.fuzz.applicable import demand_applicable
    from falsifier.fuzz.starts import given_shapes
    from falsifier.fuzz.store import demand_session

    settings.demand()
    demand_applicable(settings)
    network = load(settings.model)
    network = network.shaped(given_shapes(network, settings.shapes))
    fuzzer = (_language if settings.objective.startswith("words:") else _numbers)(settings, network)
    if settings.out is not None:
        demand_session(Path(settings.out), resume=settings.resume)
    return fuzzer


def _numbers(settings: Settings, network: Network) -> Fuzzer:
    from falsifier.fuzz.rewriting import half_tensors
    from falsifier.fuzz.single import SingleWatch
    from falsifier.fuzz.starts import read_arrays, table_sizes

    notes: list[str] = []
    infos = network.reference.inputs
    starts, labels = (None, None) if settings.inputs is None else read_arrays(settings.inputs, infos)
    if settings.radius is not None and starts is None:
        raise InputError("a radius is around starts: give them with --inputs")
    space = make_space(infos, ranges=settings.ranges, radius=settings.radius, starts=starts, sizes=table_sizes(network))
    if starts is not None:
        _demand_inside(space, starts, settings)
    function = _function(settings)
    finite = settings.objective == "nonfinite"
    covered = _covered(settings, network)
    tensors = tuple(dict.fromkeys((*getattr(function, "tensors", ()), *covered)))
    watch: Watching
    lanes, tries = 64, _TRIES[0]
    try:
        lowered = network.lowered
        watch = Watch(lowered, finite=finite, tensors=tensors, halves=half_tensors(network.proto()))
        run_in_parts(watch, space.starts[:1], 1)
        # an ascent's batch is of many runs: smaller ones get to the first hit sooner
        lanes = min(_batch(lowered), _ASCENDING if finite else _LANES[1])
        tries = int(np.clip(_TRIED / max(work_per_lane(lowered), 1.0), *_TRIES))
    except (UnsupportedError, EngineError) as error:
        notes.append(f"one sample at a time, without gradients: {error}")
        watch = SingleWatch(network, finite=finite, tensors=tensors)
    if settings.lanes is not None:
        lanes = settings.lanes

    def run(x: Array) -> Seen:
        return run_in_parts(watch, x, lanes)

    objective = _objective(settings, network, space, watch, labels, function)
    cover = _cover(covered)
    rng = Rng(settings.rng_seed)
    mutators = _mutators(settings, network, space, objective, notes)
    coverage = _coverage(settings, space, run, cover, notes)
    return Fuzzer(settings, network, space, run, objective, mutators, coverage, cover, lanes, rng, tries, notes)


def _covered(settings: Settings, network: Network) -> tuple[str, ...]:
    """The tensors that coverage sees: those named, else for neurons and patterns what activation functions make."""
    if settings.cover or settings.coverage not in ("neurons", "patterns"):
        return settings.cover
    from falsifier.network.observation import layers_of

    try:
        layers = layers_of(network.lowered)
    except UnsupportedError:
        layers = ()
    if not layers:
        raise InputError(f"coverage {settings.coverage!r} needs activation functions: name tensors with --cover")
    names: list[str] = []
    room = _WATCHED
    for layer in reversed(layers):  # the deepest first, and one at least
        room -= layer.size
        if names and room < 0:
            break
        names.append(layer.name)
    return tuple(reversed(names))


def _demand_inside(space: Space, starts: Array, settings: Settings) -> None:
    outside = np.flatnonzero(((starts < space.lower) | (starts > space.upper)).any(axis=1))
    if outside.size and settings.ranges:
        raise InputError(f"start {outside[0]} lies outside of the range that is given: {outside.size} do")


def _function(settings: Settings) -> Any:
    from falsifier.fuzz.imported import imported

    name = settings.objective
    if name in ("nonfinite", "disagree", "top1") or name.startswith(("range:", "words:")):
        return None
    if ":" not in name:
        known = "nonfinite, disagree, range:LOW,HIGH, top1, words:FILE"
        raise InputError(f"no objective {name!r}: choose one of {known}, or module:function of your own")
    return imported(name, "objective", ("inputs", "outputs", "activations"))


def _batch(lowered: Any) -> int:
    by_work = _WORK / max(work_per_lane(lowered), 1.0)
    by_memory = _BYTES / max(4 * lowered.lane_bytes, 1)
    wanted = min(by_work, by_memory, _LANES[1])
    return max(1 if by_memory < _LANES[0] else _LANES[0], 1 << int(np.log2(max(wanted, 1))))


def _objective(
    settings: Settings, network: Network, space: Space, watch: Watching, labels: Array | None, function: Any
) -> Objective:
    name = settings.objective
    if name == "nonfinite":
        from falsifier.fuzz.objectives.nonfinite import NonFinite

        return NonFinite(network, watch, space.starts)
    if name == "disagree":
        from falsifier.fuzz.objectives.disagree import Disagree

        if settings.against is None:
            raise InputError("the objective disagree compares two models: give the other one with --against")
        against = load(settings.against)
        if settings.tolerance is None and (k := class_elements(network)) and class_elements(against) == k:
            from falsifier.fuzz.objectives.classes import AnotherDecision

            return AnotherDecision(network, against, k)
        return Disagree(network, against, settings.tolerance)
    if name == "top1":
        if k := class_elements(network):
            from falsifier.fuzz.objectives.classes import AnotherValue

            return AnotherValue(network, space.starts, labels, k)
        if network.reference.outputs[0].size < 2:
            raise InputError(f"{network.origin} has one output and no classes: use the objective range:LOW,HIGH")
        from falsifier.fuzz.objectives.outputs import AnotherClass

        return AnotherClass(network, space.starts, labels)
    if name.startswith("range:"):
        from falsifier.fuzz.objectives.outputs import OutsideRange

        low, high = parse_range(name.removeprefix("range:"), "objective range:LOW,HIGH")
        return OutsideRange(network, low, high)
    from falsifier.fuzz.objectives.written import Written

    return Written(name, function, network, space)


def parse_range(text: str, what: str) -> tuple[float, float]:
    """Two numbers, either of which may be -inf or inf. Raises InputError."""
    parts = text.split(",")
    try:
        low, high = (float(p) for p in parts)
    except ValueError:
        raise InputError(f"{what}: {text!r} is not two numbers with a comma between them") from None
    if not low <= high:
        raise InputError(f"{what}: {text!r} is empty")
    return low, high


def _cover(names: Sequence[str]) -> Callable[[Seen], Array]:
    if not names:
        return lambda seen: np.asarray(seen.outputs, np.float32)
    return lambda seen: np.concatenate([seen.activations[n] for n in names], axis=1).astype(np.float32)


def _mutators(
    settings: Settings, network: Network, space: Space, objective: Objective, notes: list[str]
) -> list[tuple[Mutator, float]]:
    from falsifier.fuzz.imported import imported
    from falsifier.fuzz.mutators.noise import Noise
    from falsifier.fuzz.mutators.special import Special
    from falsifier.fuzz.mutators.written import Written

    made: dict[str, tuple[Callable[[], Mutator], float]] = {
        "noise": (lambda: Noise(space), 2.0),
        "special": (lambda: Special(space, constants_of(network)), 1.0),
    }
    if settings.objective == "nonfinite":
        from falsifier.fuzz.magnitude import magnitudes
        from falsifier.fuzz.mutators.ascent import Ascent

        try:
            found = magnitudes(network.lowered)
        except UnsupportedError:
            found = None
        if found is not None:
            steep = found
            made["ascent"] = (lambda: Ascent(space, steep), 3.0)
        else:
            notes.append("no gradient reaches the inputs: special values and noise alone")
    elif isinstance(objective, Uphill):
        from falsifier.fuzz.mutators.uphill import UphillSteps

        climbed: Uphill = objective
        try:
            climbed.uphill(space.starts[:1], np.zeros(1, np.int64))
            made["uphill"] = (lambda: UphillSteps(space, climbed), 2.0)
        except EngineError:
            notes.append("no gradient reaches the inputs: special values and noise alone")
    made.update(_edits(settings, space))
    chosen: list[tuple[Mutator, float]] = []
    if not settings.only_mutators:
        chosen = [(maker(), weight) for maker, weight in made.values()]
    for name in settings.mutators:
        if ":" in name:
            chosen.append((Written(name, imported(name, "mutator", ("inputs", "generator")), space), 3.0))
        elif name not in made:
            raise InputError(f"no mutator {name!r} here: {', '.join(made)}, or module:function")
        elif settings.only_mutators:
            chosen.append((made[name][0](), made[name][1]))
    if not chosen:
        raise InputError("no mutator is left: name some with --mutators")
    return chosen


def _edits(settings: Settings, space: Space) -> dict[str, tuple[Callable[[], Mutator], float]]:
    """Edits of text, for the one integer input of a network whose vocabulary was given."""
    from falsifier.fuzz.language import read_vocabulary
    from falsifier.fuzz.mutators.text import Edits

    if settings.tokens is None:
        return {}
    size = len(read_vocabulary(Path(settings.tokens)))
    whole = _integers(space.infos)
    if not whole:
        raise InputError("a vocabulary is for integer inputs, of which this network has none")
    start, stop = whole[0]
    return {"edits": (lambda: Edits(start, stop, size, filled=False), 3.0)}


def _integers(infos: Sequence[TensorInfo]) -> list[tuple[int, int]]:
    found, at = [], 0
    for info in infos:
        if info.dtype.kind in "iu":
            found.append((at, at + info.size))
        at += info.size
    return found


def constants_of(network: Network) -> list[Array]:
    """The model's constants, as it computes with them; its initializers where it has no batched program."""
    try:
        return [np.asarray(c) for c in network.lowered.program.constants.values()]
    except UnsupportedError:
        from onnx import numpy_helper

        return [np.asarray(numpy_helper.to_array(i)) for i in network.proto().graph.initializer]


def _coverage(
    settings: Settings, space: Space, run: Runner, cover: Callable[[Seen], Array], notes: list[str]
) -> Coverage:
    if settings.coverage == "none":
        from falsifier.fuzz.coverage.none import NoCoverage

        return NoCoverage()
    if settings.coverage in ("neurons", "patterns"):
        from falsifier.fuzz.coverage.activations import Activations
        from falsifier.search.coverage.neurons import Neurons
        from falsifier.search.coverage.patterns import Patterns

        return Activations(Neurons() if settings.coverage == "neurons" else Patterns())
    if settings.coverage != "nearest":
        raise InputError(f"no coverage {settings.coverage!r}: nearest, neurons, patterns or none")
    from falsifier.fuzz.coverage.kept import missing_of_extra
    from falsifier.fuzz.coverage.nearest import NearestNeighbour

    threshold = settings.threshold
    if threshold is None:
        threshold = measured_threshold(space, run, cover)
        notes.append(f"coverage threshold {threshold:.4g} (squared L2), measured")
    width = cover(run(space.starts[:1])).shape[1]
    approximate, most = not settings.exact_coverage, 1 << 62
    if approximate and missing_of_extra():
        approximate, most = False, _WITHOUT_EXTRA
    return NearestNeighbour(width, threshold, approximate=approximate, most=most)


def measured_threshold(space: Space, run: Runner, cover: Callable[[Seen], Array]) -> float:
    """A twentieth of the median squared distance between vectors of random points (the paper's constant is 1.0).

    A constant fits logits of one scale: probabilities never differ by so much, and unnormalised sums always do.
    """
    vectors = cover(run(space.uniform(Rng(0), _SAMPLES))).astype(np.float64)
    vectors = vectors[np.isfinite(vectors).all(axis=1)]
    half = len(vectors) // 2
    if not half:
        return 1.0
    with np.errstate(over="ignore"):
        median = float(np.median(((vectors[:half] - vectors[half : 2 * half]) ** 2).sum(axis=1)))
    return float(np.clip(_SHARE * median, 1e-12, 1e30)) if median > 0 else 1e-6


def _language(settings: Settings, network: Network) -> Fuzzer:
    from falsifier.fuzz.language import LanguageModel, read_vocabulary
    from falsifier.fuzz.mutators.text import FILLER, Edits
    from falsifier.fuzz.objectives.words import Words, read_words

    if settings.tokens is None:
        raise InputError("the objective words needs the model's vocabulary: give it with --tokens FILE.json")
    model = LanguageModel(
        network,
        read_vocabulary(Path(settings.tokens)),
        length=settings.generate,
        sample_seed=settings.sample_seed,
        temperature=settings.temperature,
    )
    objective = Words(model, read_words(Path(settings.objective.removeprefix("words:"))))
    size, length = len(model.vocabulary), settings.prompt_length
    if settings.inputs is None:
        texts = [[i % size] for i in range(min(size, 64))]
    else:
        texts = [model.ids(line)[:length] for line in read_text(settings.inputs).splitlines()]
        texts = [t for t in texts if t]
        if not texts:
            raise InputError(f"{settings.inputs}: holds no text that the vocabulary can write, one prompt a line")
    starts = np.full((len(texts), length), FILLER, np.float64)
    for row, text in zip(starts, texts, strict=True):
        row[: len(text)] = text
    info = TensorInfo("prompt", (length,), np.dtype(np.int64))
    space = make_space([info], ranges={"prompt": (FILLER, size - 1)}, starts=starts)
    lanes = settings.lanes or (256 if model.batched else 32)
    mutators: list[tuple[Mutator, float]] = [(Edits(0, length, size, filled=True), 1.0)]
    notes = [] if model.batched else ["the model takes one text at a time: its leading dimension is fixed"]

    def cover(seen: Seen) -> Array:
        return np.asarray(seen.outputs, np.float32)

    coverage = _coverage(settings, space, model.run, cover, notes)
    return Fuzzer(
        settings,
        network,
        space,
        model.run,
        objective,
        mutators,
        coverage,
        cover,
        lanes,
        Rng(settings.rng_seed),
        500,
        notes,
    )

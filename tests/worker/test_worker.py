"""The warm worker through the competition's scripts: it answers as a fresh process would, or there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import models
import pytest
from bad_input import BAD, spoil
from scenes import CENTRE, NEVER, PATIENCE, Scene, eventually, write
from several_networks import FALLS, bent

from falsifier.query import read
from falsifier.witness.text import read_witness


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Ends with no process left, whatever the test did."""
    for name in ("instance", "runtime"):
        (tmp_path / name).mkdir(mode=0o700)
    made = Scene(tmp_path / "instance", tmp_path / "runtime")
    write(made.folder, CENTRE)
    yield made
    for pid in made.processes():
        os.kill(pid, signal.SIGKILL)


def test_a_prepared_instance_is_answered_by_its_worker(scene: Scene) -> None:
    before = {path.name: path.read_bytes() for path in scene.folder.iterdir()}
    scene.prepare()
    assert {path.name: path.read_bytes() for path in scene.folder.iterdir()} == before
    worker = scene.worker()
    assert scene.processes() == [worker]
    os.kill(worker, signal.SIGSTOP)
    process = scene.start()
    with pytest.raises(subprocess.TimeoutExpired):  # it is the worker that is waited for
        process.wait(1)
    assert scene.results() == "unknown\n"
    os.kill(worker, signal.SIGCONT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "sat (exact)" in stderr
    witness = read_witness(read(scene.folder / "prop.vnnlib"), scene.results())
    assert 0.25 <= witness.inputs[0][0] <= 1
    assert scene.gone()
    assert scene.places() == []
    assert sorted(path.name for path in scene.folder.iterdir()) == ["net.onnx", "out.txt", "prop.vnnlib"]


def test_several_networks(scene: Scene) -> None:
    models.save(bent(), scene.folder / "net.onnx")
    (scene.folder / "prop.vnnlib").write_text(FALLS)
    literal = "[('f', './net.onnx'), ('g', './net.onnx')]"
    scene.prepare(literal)
    scene.worker()
    process = scene.script("run_instance.sh", literal, "prop.vnnlib", "out.txt", "90")
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "verify" not in stderr  # the worker answered
    assert scene.results().startswith("sat\nX_f float32 [1,1]\n")
    assert scene.gone()


@pytest.mark.parametrize("rng_seed", ["0", "7"])
def test_the_same_answer_as_a_fresh_process(scene: Scene, rng_seed: str) -> None:
    write(scene.folder, "(assert (>= Y_0 0.6))\n(assert (<= Y_0 0.95))\n")  # neither centre nor corner
    scene.prepare()
    scene.run(FALSIFIER_RNG_SEED=rng_seed)
    warm = scene.results()
    assert scene.places() == []
    scene.run(FALSIFIER_RNG_SEED=rng_seed)
    assert warm == scene.results()
    assert warm.startswith("sat\n")


def test_off(scene: Scene) -> None:
    scene.prepare(FALSIFIER_WORKER="off")
    assert scene.places() == []
    assert scene.processes() == []
    scene.prepare()
    worker = scene.worker()
    assert "sat (exact)" in scene.run(FALSIFIER_WORKER="off")
    assert scene.processes() == [worker]


def test_unused_it_ends(scene: Scene) -> None:
    scene.prepare(FALSIFIER_WORKER="1")
    assert scene.gone()
    assert scene.places() == []
    scene.run()
    assert scene.results().startswith("sat\n")


@pytest.mark.parametrize("name", ["net.onnx", "prop.vnnlib"])
def test_stale(scene: Scene, name: str) -> None:
    scene.prepare()
    if name == "net.onnx":
        models.save(models.chain([("Neg", [], {})], [1, 1], [1, 1]), scene.folder / name)
    else:
        text = (scene.folder / name).read_text()
        (scene.folder / name).write_text(text.replace("0.25", "9.25"))  # of the same size
    scene.run("3")
    assert scene.results() in ("unknown\n", "timeout\n")
    assert scene.gone()
    assert scene.places() == []


def test_killed_while_it_waits(scene: Scene) -> None:
    scene.prepare()
    os.kill(scene.worker(), signal.SIGKILL)
    assert scene.gone()
    assert "sat (exact)" in scene.run()
    assert scene.gone()


def test_killed_while_it_searches(scene: Scene) -> None:
    """A fresh process goes on with the time that is left."""
    write(scene.folder, NEVER)
    scene.prepare()
    worker = scene.worker()
    process = scene.start("6")
    assert eventually(lambda: not scene.places())
    os.kill(worker, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert scene.results() in ("unknown\n", "timeout\n")
    assert scene.gone()


def test_two_instances_do_not_meet(scene: Scene) -> None:
    other = Scene(scene.folder.parent / "other", scene.runtime, mark=scene.mark)
    other.folder.mkdir()
    write(other.folder, "(assert (>= Y_0 0.75))\n")  # the same names in another folder
    scene.prepare()
    other.prepare()
    assert len(scene.processes()) == 2
    scene.run()
    other.run()
    for each, least in ((scene, 0.25), (other, 0.75)):
        assert read_witness(read(each.folder / "prop.vnnlib"), each.results()).inputs[0][0] >= least
    assert scene.gone()


def test_another_instance_s_worker_is_left_alone(scene: Scene) -> None:
    scene.prepare()
    worker = scene.worker()
    (scene.folder / "prop.vnnlib").rename(scene.folder / "second.vnnlib")
    process = scene.script("run_instance.sh", "net.onnx", "second.vnnlib", "out.txt", "90")
    process.communicate(timeout=PATIENCE)
    assert scene.results().startswith("sat\n")
    assert scene.processes() == [worker]


def test_prepared_again_the_older_one_ends(scene: Scene) -> None:
    scene.prepare()
    older = scene.worker()
    scene.prepare()
    assert eventually(lambda: scene.processes() == [scene.worker()])
    assert scene.worker() != older
    scene.run()
    assert scene.results().startswith("sat\n")
    assert scene.gone()


def test_one_worker_serves_one_client(scene: Scene) -> None:
    """Two runs of one prepared instance: one of them is answered by a fresh process."""
    scene.prepare()
    runs = [scene.start(results=name) for name in ("a.txt", "b.txt")]
    for process, name in zip(runs, ("a.txt", "b.txt"), strict=True):
        process.communicate(timeout=PATIENCE)
        assert scene.results(name).startswith("sat\n")
    assert scene.gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_script_ends_the_worker(scene: Scene, number: signal.Signals) -> None:
    write(scene.folder, NEVER)
    scene.prepare()
    process = scene.start("900")
    assert eventually(lambda: not scene.places())
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert scene.results() in ("unknown\n", "timeout\n")
    assert scene.gone()
    assert sorted(path.name for path in scene.folder.iterdir()) == ["net.onnx", "out.txt", "prop.vnnlib"]


def test_a_worker_that_hangs_is_ended(scene: Scene) -> None:
    scene.prepare()
    os.kill(scene.worker(), signal.SIGSTOP)
    process = scene.start("900")
    assert eventually(lambda: any((place / "claim").exists() for place in scene.places()))
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert (process.returncode, scene.results()) == (0, "unknown\n")
    assert scene.gone()


@pytest.mark.parametrize("when", ["waiting for the worker", "searching"])
def test_the_script_s_death_ends_the_worker(scene: Scene, when: str) -> None:
    write(scene.folder, NEVER)
    scene.prepare()
    worker = scene.worker()
    if when == "searching":
        process = scene.start("900")
        assert eventually(lambda: not scene.places())
    else:
        os.kill(worker, signal.SIGSTOP)
        process = scene.start("900")
        assert eventually(lambda: any((place / "claim").exists() for place in scene.places()))
        time.sleep(0.3)
    process.kill()
    process.communicate(timeout=PATIENCE)
    if when != "searching":
        os.kill(worker, signal.SIGCONT)
    assert scene.gone()
    assert scene.results() == "unknown\n"
    assert scene.places() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_prepare_s_end_ends_a_worker_that_is_not_ready(scene: Scene, number: signal.Signals) -> None:
    process = scene.script("prepare_instance.sh", "net.onnx", "prop.vnnlib")
    assert eventually(lambda: len(scene.processes()) == 3)  # script, launcher, worker
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert scene.gone()
    assert scene.places() == []
    scene.run()
    assert scene.results().startswith("sat\n")


def test_a_signal_ends_a_worker_that_waits(scene: Scene) -> None:
    scene.prepare()
    os.kill(scene.worker(), signal.SIGTERM)
    assert scene.gone()
    assert scene.places() == []


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_by_the_run(scene: Scene, name: str) -> None:
    models.save(models.identity(), scene.folder / "net.onnx")
    net, prop = spoil(name, scene.folder)
    scene.prepare(net, prop)
    assert scene.gone()
    assert scene.run().count("\n") == 1
    assert scene.results() == ("unknown\n" if name == "unbounded input" else "error\n")


@pytest.mark.parametrize("timeout", ["", "soon", "-3"])
def test_bad_time_limit(scene: Scene, timeout: str) -> None:
    scene.prepare()
    assert scene.run(timeout).count("\n") == 1
    assert scene.results() == "error\n"
    assert scene.gone()


def test_unwritable_results_are_told_at_once(scene: Scene) -> None:
    scene.prepare()
    worker = scene.worker()
    process = scene.start(results="missing/out.txt")
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert "missing/out.txt" in stderr
    assert scene.processes() == [worker]


def test_the_deadline_counts_from_the_script(scene: Scene) -> None:
    write(scene.folder, NEVER)
    took = scene.prepare()
    scene.run(f"{max(1.5, took)}\r")  # a busy machine needs longer to answer at all
    assert scene.results() == "timeout\n"
    assert scene.gone()


def test_unsat_on_an_empty_input_set(scene: Scene) -> None:
    text = models.declare(1, 1) + models.box([0.6], [0.4]) + CENTRE
    (scene.folder / "prop.vnnlib").write_text(text)
    scene.prepare()
    assert scene.places()
    scene.run()
    assert scene.results() == "unsat\n"


def test_a_folder_open_to_others_is_not_used(scene: Scene) -> None:
    folder = scene.runtime / f"falsifier-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    scene.prepare()
    assert scene.places() == []
    assert scene.gone()
    scene.run()
    assert scene.results().startswith("sat\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_used(scene: Scene) -> None:
    scene.prepare()
    worker = scene.processes()
    os.chown(scene.runtime / "falsifier-0", 65534, 65534)
    assert "sat (exact)" in scene.run()
    assert scene.processes() == worker
    scene.prepare()
    assert scene.processes() == worker


def test_a_link_is_not_followed(scene: Scene) -> None:
    scene.prepare()
    real = scene.runtime / f"falsifier-{os.geteuid()}"
    real.rename(scene.runtime / "elsewhere")
    real.symlink_to(scene.runtime / "elsewhere")
    worker = scene.processes()
    assert "sat (exact)" in scene.run()
    assert scene.processes() == worker


def test_no_more_than_a_few_wait(scene: Scene) -> None:
    for i in range(9):
        (scene.folder / f"prop{i}.vnnlib").write_bytes((scene.folder / "prop.vnnlib").read_bytes())
        scene.prepare(prop=f"prop{i}.vnnlib")
    assert len(scene.places()) == 8
    assert eventually(lambda: len(scene.processes()) == 8)

"""Each layer is what stops its attacks: refused while it is there, whatever else is off, and through as soon as it is off too.

What gets through cleans up after itself, or ends with its process or container.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from benchmarks.layers import OFF, PAGE, Layer, LayerAttack, layers, written
from sandbox.docker import DockerSandbox, _Kind
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from sandbox.handshake import Greeting

LAYERS = layers()


CASES = [
    pytest.param(layer, attack, id=f"{layer.name}: {attack.idea}", marks=[pytest.mark.docker] * (attack.backend == "docker"))
    for layer in LAYERS
    for attack in layer.attacks
]


@pytest.fixture(scope="session")
def here() -> Greeting:
    """Return what a local runner says of this kernel."""
    runner = LocalSandbox()._launch()
    runner.close()
    return runner.greeting


@pytest.mark.parametrize(("layer", "attack"), CASES)
def test_an_attack_gets_through_exactly_when_its_layer_is_off(
    layer: Layer, attack: LayerAttack, here: Greeting, request: pytest.FixtureRequest
) -> None:
    """With the layer the attack comes home with nothing; without it, with something."""
    if attack.backend == "docker":
        request.getfixturevalue("engine")
    if layer.name == "landlock" and here.landlock_abi < attack.abi:
        pytest.skip(f"this kernel has no Landlock of ABI {attack.abi}, which knows this")
    if layer.name == "namespaces" and not here.namespaces:
        pytest.skip("this kernel allows no namespaces")

    assert attack.got(attack.beside) == ""
    assert attack.got([layer.name, *attack.beside]) != ""


def test_every_layer_of_the_child_is_attacked() -> None:
    """None can be switched off without a test that shows what it does."""
    assert {layer.name for layer in LAYERS if layer.of == "child"} == {"namespaces", "dumpable", "rlimits", "landlock", "seccomp"}
    assert all(layer.attacks for layer in LAYERS)


@pytest.mark.docker
def test_every_flag_of_the_container_is_attacked(engine: None) -> None:
    """None of the engine's settings is without a test, but for those that show nothing to a policy."""
    sandbox = DockerSandbox()
    host = sandbox._plan(sandbox._engine().client, _Kind(2**20, 0)).host
    sandbox.close()
    changed = set()
    for name, switch_off in OFF.items():
        weaker = copy.deepcopy(host)
        switch_off(weaker)
        assert weaker != host or name == "own user", name
        changed |= {key for key in host if weaker.get(key) != host[key]}

    assert set(host) - changed == {"LogConfig", "CpusetCpus"}
    assert set(OFF) == {layer.name for layer in LAYERS if layer.of == "container"}


def test_the_page_shows_the_layers_and_attacks_as_they_are() -> None:
    """docs/security.md is what `python -m benchmarks.layers` writes."""
    page = PAGE.read_text(encoding="utf-8")

    assert written(page) == page

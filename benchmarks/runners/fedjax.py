"""The job by fedjax, compiled by jax; it has no clipping and no noise, so both are added here, as it adds clients up.

Convolutions are jax's own, which are slow inside its loop over steps.
"""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.core import for_each_client
from jax import lax

from benchmarks.job import Job, all_records
from benchmarks.networks import Convolution, Layer, Network
from benchmarks.protocol import asked, report

Weights = list[tuple[jax.Array, jax.Array]]


def initial(network: Network) -> Weights:
    """Uniform weights of the usual scale, and no biases."""
    generator = np.random.default_rng(0)

    def layer(one: Layer) -> tuple[jax.Array, jax.Array]:
        pixels = (one.kernel, one.kernel) if isinstance(one, Convolution) else ()
        scale = np.prod((*pixels, one.inputs)) ** -0.5
        weights = generator.uniform(-scale, scale, (*pixels, one.inputs, one.outputs)).astype(np.float32)
        return jnp.asarray(weights), jnp.zeros(one.outputs)

    return [layer(one) for one in network.layers]


def scores(network: Network, weights: Weights, features: jax.Array) -> jax.Array:
    """What the network says of a batch, `float32[n, height, width, channels]`."""
    last = len(network.layers) - 1
    for place, (layer, (weight, bias)) in enumerate(zip(network.layers, weights, strict=True)):
        if isinstance(layer, Convolution):
            padding = [(layer.padding, layer.padding)] * 2
            names = ("NHWC", "HWIO", "NHWC")
            found = lax.conv_general_dilated(features, weight, (1, 1), padding, dimension_numbers=names) + bias
            features = lax.reduce_window(jax.nn.relu(found), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        else:
            found = features.reshape(len(features), -1) @ weight + bias
            features = found if place == last else jax.nn.relu(found)
    return features


def trainer_of(job: Job) -> Any:
    """As fedjax's own federated averaging, with a clip at the end of each client."""
    optimizer = fedjax.optimizers.sgd(job.learning_rate)

    def loss(weights: Weights, batch: dict[str, jax.Array]) -> jax.Array:
        logits = jax.nn.log_softmax(scores(job.network, weights, batch["x"]))
        return -jnp.mean(jnp.take_along_axis(logits, batch["y"][:, None], 1))

    gradient = jax.grad(loss)

    def begin(weights: Weights, key: jax.Array) -> dict[str, Any]:
        return {"weights": weights, "state": optimizer.init(weights)}

    def step(client: dict[str, Any], batch: dict[str, jax.Array]) -> dict[str, Any]:
        state, weights = optimizer.apply(gradient(client["weights"], batch), client["state"], client["weights"])
        return {"weights": weights, "state": state}

    def end(weights: Weights, client: dict[str, Any]) -> Weights:
        update = jax.tree_util.tree_map(lambda before, after: after - before, weights, client["weights"])
        factor = jnp.minimum(1.0, job.clip / (fedjax.tree_util.tree_l2_norm(update) + 1e-12))
        return jax.tree_util.tree_map(lambda value: value * factor, update)

    return for_each_client.for_each_client(begin, step, end)


def play(job: Job, train: Any, data: dict[int, fedjax.ClientDataset]) -> list[float]:
    """When each round ended."""
    batches = fedjax.ShuffleRepeatBatchHParams(batch_size=job.batch, num_epochs=1, seed=0)
    generator, weights, key, stamps = np.random.default_rng(1), initial(job.network), jax.random.PRNGKey(0), []
    for _ in range(job.rounds):
        key, noise, *keys = jax.random.split(key, job.cohort + 2)
        cohort = generator.permutation(job.clients)[: job.cohort]
        clients = [
            (int(one), data[int(one)].shuffle_repeat_batch(batches), own) for one, own in zip(cohort, keys, strict=True)
        ]
        total = jax.tree_util.tree_map(jnp.zeros_like, weights)
        for _, update in train(weights, clients):
            total = fedjax.tree_util.tree_add(total, update)
        leaves, shape = jax.tree_util.tree_flatten(total)
        noisy = [
            (leaf + job.noise * job.clip * jax.random.normal(own, leaf.shape)) / job.cohort
            for leaf, own in zip(leaves, jax.random.split(noise, len(leaves)), strict=True)
        ]
        weights = fedjax.tree_util.tree_add(weights, jax.tree_util.tree_unflatten(shape, noisy))
        jax.block_until_ready(weights)
        stamps.append(time.time())
    return stamps


def main() -> None:
    """Play the job."""
    job, options = asked(backend="jit")
    for_each_client.set_for_each_client_backend(options.backend)
    data = {
        client: fedjax.ClientDataset(
            {"x": np.ascontiguousarray(np.moveaxis(features, 1, -1)), "y": labels.astype(np.int32)}
        )
        for client, (features, labels) in enumerate(all_records(job))
    }
    versions = {package: importlib.metadata.version(package) for package in ("fedjax", "jax")}
    report(play(job, trainer_of(job), data), versions)


if __name__ == "__main__":
    main()

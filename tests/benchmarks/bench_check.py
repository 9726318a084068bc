"""What check() costs per element, and its verdict on gradients of other projects.

Prints two tables: seconds and runs of f by the number of elements, and the verdict on the custom
gradients of TensorFlow, of Keras and, if it is installed (with tf_keras), of
tensorflow-probability.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np
import tensorflow as tf

import cgviz

try:
    import tensorflow_probability as tfp
except ImportError:
    tfp = None

Entry = tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@tf.custom_gradient
def square(x: tf.Tensor) -> Any:
    """x², with a rule."""
    return x * x, lambda dy: 2.0 * x * dy


def cost() -> None:
    """Seconds and runs of f for vectors of growing length."""
    print(f"{'elements':>9} {'seconds':>9} {'runs of f':>10}")
    cgviz.check(square, [1.0, 2.0])
    for n in (1, 10, 20, 40, 100, 1_000, 10_000, 100_000):
        runs = []

        def counted(x: tf.Tensor, runs: list[int] = runs) -> tf.Tensor:
            runs.append(1)
            return square(x)

        start = time.perf_counter()
        report = cgviz.check(counted, np.linspace(0.5, 3.0, n, dtype=np.float32))
        seconds = time.perf_counter() - start
        print(f"{n:9} {seconds:9.2f} {len(runs):10}{'' if report.ok else '  WRONG'}")


def of_tensorflow() -> Iterator[Entry]:
    """TensorFlow's own custom gradients."""
    matrix = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    yield "tf.nn.silu", tf.nn.silu, ([-2.0, 0.5, 3.0],), {}
    yield "tf.nn.silu, beta scalar", tf.nn.silu, ([-2.0, 0.5, 3.0], 1.5), {}
    yield "tf.nn.silu, beta vector", tf.nn.silu, (matrix, [1.0, 0.5, 2.0]), {}
    yield "tf.recompute_grad", tf.recompute_grad(lambda x: tf.sin(x) * x), ([0.5, 2.0],), {}
    logits = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)

    def ctc(logits: tf.Tensor) -> tf.Tensor:
        labels = tf.constant([[1, 2], [2, 1]])
        return tf.nn.ctc_loss(labels, logits, [2, 2], [4, 4], logits_time_major=False)

    yield "tf.nn.ctc_loss", ctc, (logits,), {}
    for name in ("softplus", "elu", "selu", "gelu", "leaky_relu", "softsign", "log_softmax"):
        yield f"tf.nn.{name}", getattr(tf.nn, name), ([-2.0, 0.5, 3.0],), {}
    for name in ("xlogy", "xlog1py", "xdivy", "pow", "atan2", "igamma", "zeta", "polygamma"):
        args = ([2.0, 3.0], [2.5, 1.5])
        yield f"tf.math.{name}", getattr(tf.math, name), args, {}
    for name in ("expm1", "erfcinv", "ndtri", "digamma", "lgamma", "bessel_i0e", "bessel_i1e"):
        yield f"tf.math.{name}", getattr(tf.math, name), ([0.3, 0.7],), {}
    for name in ("dawsn", "expint", "fresnel_cos", "spence", "bessel_k0e", "bessel_j1"):
        yield f"tf.math.special.{name}", getattr(tf.math.special, name), ([0.3, 1.7],), {}


def of_keras() -> Iterator[Entry]:
    """Keras's own: quantized layers and fake quantization, whose rules are surrogates."""
    keras.utils.set_random_seed(1)
    data = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    for mode in ("int8", "int4", "float8"):
        for make in (
            lambda: keras.layers.Dense(3),
            lambda: keras.layers.EinsumDense("ab,bc->ac", output_shape=(3,)),
        ):
            layer = make()
            layer.build((2, 4))
            name = f"keras {type(layer).__name__} {mode}"
            try:
                layer.quantize(mode)
            except (NotImplementedError, ValueError):
                continue
            yield name, lambda x, layer=layer: layer(x), (data,), {"surrogate": True}
    fake = keras.quantizers.fake_quant_with_min_max_vars
    args = ([-3.0, -0.33, 0.41, 3.0], -2.0, 2.0)
    yield "keras fake_quant_with_min_max_vars", fake, args, {"surrogate": True}


def of_probability() -> Iterator[Entry]:
    """tensorflow-probability's special functions."""
    m = tfp.math
    unary = {
        "dawsn": [0.3, -2.0, 5.0],
        "erfcx": [-1.0, 0.5, 30.0],
        "erfcinv": [0.2, 1.5],
        "logerfc": [-1.0, 2.0, 8.0],
        "logerfcx": [-1.0, 0.5, 8.0],
        "lambertw": [0.5, -0.2, 30.0],
        "log1mexp": [0.5, 3.0],
        "log_cosh": [0.5, -30.0],
        "log1psquare": [0.5, 1e4],
        "softplus_inverse": [0.5, 30.0],
        "sqrt1pm1": [0.5, 1e-4],
        "smootherstep": [0.3, 0.8],
        "round_exponential_bump_function": [0.3, -0.8],
        "igammainv": ([2.0, 5.0], [0.3, 0.7]),
        "igammacinv": ([2.0, 5.0], [0.3, 0.7]),
        "betainc": ([2.0, 5.0], [3.0, 1.5], [0.3, 0.7]),
        "betaincinv": ([2.0, 5.0], [3.0, 1.5], [0.3, 0.7]),
        "lbeta": ([2.0, 50.0], [3.0, 1.5]),
        "log_gamma_difference": ([2.0, 5.0], [30.0, 100.0]),
        "log_gamma_correction": [9.0, 30.0],
        "bessel_ive": ([0.5, 2.0], [1.5, 3.0]),
        "bessel_kve": ([0.5, 2.0], [1.5, 3.0]),
        "log_bessel_ive": ([0.5, 2.0], [1.5, 3.0]),
        "log_bessel_kve": ([0.5, 2.0], [1.5, 3.0]),
        "bessel_iv_ratio": ([1.5, 2.0], [1.5, 3.0]),
        "log_add_exp": ([0.5, 50.0], [1.5, 3.0]),
        "log_sub_exp": ([2.5, 50.0], [1.5, 3.0]),
        "owens_t": ([0.5, 1.0], [1.5, 0.3]),
        "atan_difference": ([0.5, 1.0], [1.5, 0.3]),
        "reduce_kahan_sum": [0.5, 1e4],
        "reduce_logmeanexp": [0.5, 3.0],
    }
    for name, values in unary.items():
        if hasattr(m, name):
            yield f"tfp.math.{name}", getattr(m, name), _args(values), {}
    clip = m.clip_by_value_preserve_gradient
    yield (
        "tfp clip_by_value_preserve_gradient",
        lambda x: clip(x, -1.0, 1.0),
        ([-2.0, 0.5],),
        {"surrogate": True},
    )
    d, b = tfp.distributions, tfp.bijectors
    yield "tfp VonMises cdf", lambda x, k: d.VonMises(0.0, k).cdf(x), ([0.5, -1.0], [2.0, 20.0]), {}
    yield "tfp StudentT cdf", lambda x, n: d.StudentT(n, 0.0, 1.0).cdf(x), ([0.5], [4.0]), {}
    yield "tfp Softplus inverse", lambda x: b.Softplus().inverse(x), ([0.5, 30.0],), {}
    yield "tfp Sigmoid", lambda x: b.Sigmoid().forward(x), ([0.5, -30.0],), {}


def _args(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def verdicts(entries: Iterator[Entry]) -> None:
    """One line per gradient, and one for each finding."""
    for name, f, args, how in entries:
        start = time.perf_counter()
        report = cgviz.check(f, *args, **how)
        seconds = time.perf_counter() - start
        word = "right" if report.ok else "WRONG"
        print(f"{name:38} {word:6} {seconds:6.2f} s")
        for each in report.findings:
            print(f"{'':38}   {each.level} {each.rule}: {each.message[:150]}")


if __name__ == "__main__":
    cost()
    verdicts(of_tensorflow())
    verdicts(of_keras())
    if tfp is None:
        print("tensorflow-probability is not installed, so its functions are left out")
    else:
        verdicts(of_probability())

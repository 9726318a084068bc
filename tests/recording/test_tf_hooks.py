"""A recording sees what TensorFlow does and changes nothing of it.

When it ends, however it ends, TensorFlow is exactly as it was: every test here is held to that.
"""

import asyncio
import contextlib
import contextvars
import gc
import linecache
import os
import re
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import forked
import keras
import numpy as np
import pytest
import tensorflow as tf
from jupyter_client.manager import start_new_kernel
from oracle import same, tape_gradient
from programs import square
from tensorflow.python.eager import backprop, context, execute, imperative_grad, record
from tensorflow.python.ops import resource_variable_ops

import cgviz
from cgviz.recording import tf_hooks


def runs_rules():
    """What a tape calls to run the rule of an op: TensorFlow cannot be asked."""
    called = []
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(x)
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: event == "call" and called.append(frame.f_code))
    try:
        tape.gradient(y, x)
    finally:
        sys.setprofile(before)
    own = {tf_hooks._on_gradient.__code__, backprop._gradient_function.__code__}
    return next(code for code in called if code in own)


def state():
    """Every attribute that a recording replaces, and the callbacks of this thread."""
    return [
        runs_rules(),
        *(getattr(owner, name) for owner, name, _ in tf_hooks._HOOKS),
        execute.execute,
        record.record_operation,
        imperative_grad.imperative_grad,
        _own(resource_variable_ops.BaseResourceVariable),
        list(context.context().op_callbacks),
        context.context().scope_name,
    ]


def _own(owner):
    """A class's own attributes, but what Python adds when it is first asked for."""
    return {name: x for name, x in vars(owner).items() if name != "__annotations__"}


@pytest.fixture(autouse=True)
def nothing_stays():
    before = state()
    yield
    assert state() == before
    assert tf_hooks._open_recorder() is None
    assert tf_hooks._users == tf_hooks._saved == []


# --- on and off ------------------------------------------------------------------------------


def test_a_trace_leaves_nothing_behind():
    during = []
    cgviz.trace(lambda x: during.append(state()) or x * x, 1.0)
    assert during[0] != state()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_in_f_comes_out_unharmed(error):
    def f(x):
        tf.sin(x)
        raise error("mine")

    with pytest.raises(error, match="mine") as caught:
        cgviz.trace(f, 1.0)
    assert type(caught.value) is error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_a_rule_comes_out_unharmed(error):
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            raise error("in the rule")

        return x * 2.0, grad

    with pytest.raises(error, match="in the rule"):
        cgviz.trace(f, 1.0)


def test_an_error_in_a_custom_body_does_not_spoil_what_follows():
    @tf.custom_gradient
    def broken(x):
        raise ValueError("in the body")

    def f(x):
        with contextlib.suppress(ValueError):
            broken(x)
        return x * x

    assert cgviz.trace(f, 3.0).gradients[0] == 6.0


def test_a_recording_that_fails_keeps_what_it_saw():
    x = tf.constant(3.0)
    with pytest.raises(ValueError, match="late"), cgviz.record() as trace:  # noqa: PT012
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
        raise ValueError("late")
    assert trace.gradients[0] == 6.0


def test_an_inner_recording_that_fails_leaves_the_outer_one_running():
    with cgviz.record() as outer:
        with pytest.raises(ValueError, match="mine"), cgviz.record():
            raise ValueError("mine")
        cgviz.trace(lambda x: x * x, 3.0)
    assert len(outer.passes) == 1


def test_a_recording_that_ends_inside_a_rule_leaves_nothing():
    def recording():
        with cgviz.record():
            yield

    @tf.custom_gradient
    def ending(x):
        return x * 2.0, lambda dy: running.close() or dy * 2.0

    x, running = tf.constant(3.0), recording()
    next(running)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(ending(x))
    same(tape.gradient(y, x).numpy(), 2.0 * tf.cos(6.0))


def test_a_callback_of_somebody_else_stays():
    from tensorflow.python.framework import op_callbacks

    seen = []

    def callback(op_type, *args, **kwargs):
        seen.append(op_type)

    op_callbacks.add_op_callback(callback)
    try:
        cgviz.trace(lambda x: tf.sin(x), 1.0)
        count = len(seen)
        tf.reshape(tf.constant([1.0]), [1, 1])
        assert len(seen) == count + 1
    finally:
        op_callbacks.remove_op_callback(callback)


WITHOUT = """
import tensorflow as tf
import cgviz
{imports}
kept = getattr({owner}, {name!r})
delattr({owner}, {name!r})
try:
    cgviz.trace
except RuntimeError as error:
    print(error)
setattr({owner}, {name!r}, kept)
print(cgviz.trace(lambda x: x * x, 3.0).gradients[0])
"""


@pytest.mark.parametrize(
    ("module", "owner", "name"),
    [
        ("pywrap_tfe", "pywrap_tfe", "TFE_Py_TapeSetIsEmpty"),
        ("eager.backprop", "backprop", "_gradient_function"),
        ("eager.record", "record", "record_operation"),
        ("eager.record", "record.VariableWatcher", "__exit__"),
        ("eager.context", "context.Context", "op_callbacks"),
        ("distribute.mirrored_run", "mirrored_run", "_MirroredReplicaThread"),
    ],
)
def test_a_release_without_what_is_hooked_is_one_sentence_that_names_it(
    module, owner, name, tmp_path
):
    package, _, own = f"tensorflow.python.{module}".rpartition(".")
    program = tmp_path / "program.py"
    program.write_text(
        WITHOUT.format(imports=f"from {package} import {own}", owner=owner, name=name)
    )
    said = forked.printed(program).splitlines()
    what = rf"cgviz cannot record with TensorFlow {tf.__version__}: .*{name}.*2\.21"
    assert re.match(what, said[-2])
    assert said[-1] == "6.0"


def test_eager_traces_of_custom_gradients_leave_no_registry_entry():
    from tensorflow.python.framework import ops

    @tf.custom_gradient
    def square(x):
        return x * x, lambda dy: 2.0 * x * dy

    before = len(ops._gradient_registry._registry)
    f = tf.function(square)
    for n in range(3):
        cgviz.trace(f, float(n), order=2)
    assert len(ops._gradient_registry._registry) == before


def recorded_once(x=3.0):
    """A recording that passes through every hook: a variable, a rule, a `tf.function`, a pass."""
    x = tf.constant(x)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = by_weight(x)
        tape.gradient(y, [x, WEIGHT])
    return trace


WEIGHT = tf.Variable(2.0, name="weight")


@tf.function
def by_weight(x):
    return square(WEIGHT * x) * tf.reshape(x, [1])


def lines_run(stop=None):
    """The lines of `tf_hooks` that one recording runs; at the one numbered `stop` an interrupt."""
    lines = []

    def on_line(frame, event, arg):
        # Python looks for interrupts after calls, and never at these.
        text = linecache.getline(tf_hooks.__file__, frame.f_lineno).strip()
        if event == "line" and not text.startswith(("with ", "try:")):
            lines.append(frame.f_lineno)
            if len(lines) - 1 == stop:
                sys.settrace(None)
                raise KeyboardInterrupt
        return on_line

    before = sys.gettrace()
    sys.settrace(
        lambda frame, *_: on_line if frame.f_code.co_filename == tf_hooks.__file__ else None
    )
    try:
        # What is raised in a hook that TensorFlow calls from C may come out as another error.
        with contextlib.suppress(KeyboardInterrupt, *([] if stop is None else [Exception])):
            recorded_once()
    finally:
        sys.settrace(before)
    return lines


def test_an_interrupt_at_any_line_leaves_everything_as_it_was():
    recorded_once()
    before, lines = state(), lines_run()
    first = {line: place for place, line in reversed(list(enumerate(lines)))}
    last = {line: place for place, line in enumerate(lines)}
    assert len(first) > 150
    for place in {*first.values(), *last.values()}:
        lines_run(stop=place)
        assert state() == before, f"interrupted at line {lines[place]}"
        assert tf_hooks._open_recorder() is None
    assert recorded_once().gradients[0] == 3 * 4 * 3.0**2


def test_a_generator_that_records_may_be_left_half_way_and_closed_in_any_order():
    def recording():
        with cgviz.record() as trace:
            yield trace

    x = tf.constant(3.0)
    first, second = recording(), recording()
    next(first)
    trace = next(second)
    first.close()
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    del second
    assert trace.gradients == (6.0,)


def test_a_thread_that_runs_in_a_copy_of_a_recordings_context_is_not_recorded():
    with cgviz.record() as outer:
        copied = contextvars.copy_context()
        thread = threading.Thread(target=copied.run, args=(recorded_once,))
        thread.start()
        thread.join()
    assert (outer.ops, outer.passes) == ((), ())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_inside_a_recording_ends_it_in_both_processes():
    before, child = state(), None
    with cgviz.record():
        child = os.fork()
    same = state() == before
    if child == 0:
        os._exit(0 if same else 1)
    assert same
    assert os.waitpid(child, 0)[1] == 0


SPAWNED = """
import multiprocessing
import tensorflow as tf
import cgviz

def slope(x):
    return float(cgviz.trace(lambda x: x * x, x).gradients[0])

if __name__ == "__main__":
    with cgviz.record() as trace:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(slope, [3.0, 4.0]))
        x = tf.constant(5.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
    print(trace.gradients)
"""


def test_processes_that_are_spawned_inside_a_recording_record_their_own(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SPAWNED)
    said = forked.printed(program)
    assert said.split("\n")[:2] == ["[6.0, 8.0]", "(array(10., dtype=float32),)"]


INTERRUPTED = """
import tensorflow as tf
import cgviz

def endless(x):
    while True:
        x = tf.sin(x)
        print(".", end="", flush=True)

cgviz.trace(endless, 1.0)
"""
AFTERWARDS = """
from tensorflow.python.framework import op_callbacks
from tensorflow.python.eager import context, execute
x = tf.constant(3.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = x * x
print(float(tape.gradient(y, x)), context.context().op_callbacks, execute.execute.__name__)
print(float(cgviz.trace(lambda x: x * x, 3.0).gradients[0]))
"""


def test_a_kernel_that_is_interrupted_while_it_records_is_as_good_as_new():
    manager, client = start_new_kernel(kernel_name="python3")
    said = []

    def stop(message):
        if message["msg_type"] == "stream":
            said.append(message["content"]["text"])
            if len(said) == 3:
                manager.interrupt_kernel()

    try:
        reply = client.execute_interactive(INTERRUPTED, timeout=120, output_hook=stop)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        said.clear()
        client.execute_interactive(AFTERWARDS, timeout=60, output_hook=stop)
        assert "".join(said) == "6.0 [] quick_execute\n6.0\n"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(coroutine):
    """Run it on a thread of its own: this one has a loop already if a browser is open in it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def test_tasks_that_take_turns_on_one_thread_have_a_recording_each():
    async def task(number):
        x = tf.constant(number)
        with cgviz.record() as trace:
            with tf.GradientTape() as tape:
                tape.watch(x)
                await asyncio.sleep(0)
                y = x * x
                await asyncio.sleep(0)
            tape.gradient(y, x)
            await asyncio.sleep(0)
        return trace

    async def together():
        return await asyncio.gather(*map(task, (1.0, 2.0, 3.0)))

    for number, trace in zip((1.0, 2.0, 3.0), run(together()), strict=True):
        assert trace.gradients == (2.0 * number,)
        assert [op.name for op in trace.ops] == ["x", "y"]


def test_a_task_inside_a_recording_is_told_that_it_cannot_record_its_own_part():
    async def task():
        return cgviz.trace(tf.square, 3.0)

    async def together():
        with cgviz.record():
            assert cgviz.trace(tf.square, 3.0).gradients == (6.0,)  # in the same task
            return await asyncio.gather(task(), task())

    before = state()
    with pytest.raises(RuntimeError, match="around the tasks or in each"):
        run(together())
    assert state() == before


def test_a_task_that_outlives_a_recording_is_recorded_no_more():
    async def late(go_on):
        await go_on.wait()
        return tf.sin(1.0)

    async def main():
        go_on = asyncio.Event()
        with cgviz.record() as trace:
            task = asyncio.create_task(late(go_on))
            await asyncio.sleep(0)
        recorded_once()
        go_on.set()
        await task
        return trace

    assert run(main()).ops == ()


# --- what it sees ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2.0, 3.0])
def test_a_constant_of_the_same_value_is_not_taken_for_the_variable(value):
    w = tf.Variable(2.0, name="w")
    x = tf.constant(value)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * w
            z = y * w
        tape.gradient(z, [x, w])
    assert [op.name for op in trace.ops] == ["w", "x", "y", "z"]
    kinds = [[trace.producer(v)[0].name for v in s.op.inputs] for s in trace.steps]
    assert kinds == [["y", "w"], ["x", "w"]]


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
def test_a_variable_that_only_the_sources_name_is_known_as_it_was(make):
    x, unread = tf.constant(2.0), make([3.0], name="unread")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, {"a": [unread], "b": x})
    unread.assign([7.0])
    op = next(op for op in trace.ops if op.name == "unread")
    assert (op.kind, op.outputs[0].numpy()) == ("variable", [3.0])
    assert trace.variables == {"unread": None}
    assert trace.gradients == (4.0,)


def test_a_tf_function_is_opened_or_kept_one_op():
    @tf.function
    def f(x):
        y = tf.sin(x)
        return y * x

    opened = cgviz.trace(f, 2.0)
    assert [s.op.type for s in opened.steps] == ["Mul", "Sin"]
    closed = cgviz.trace(f, 2.0, open_functions=False)
    assert [(s.op.type, s.op.name) for s in closed.steps] == [("tf.function", "f")]
    assert closed.gradients == opened.gradients


def test_a_tf_function_inside_another_is_opened_too_and_autograph_is_not_missed():
    @tf.function
    def inner(x):
        if tf.reduce_sum(x) > 0:
            return x * x
        return x

    @tf.function
    def outer(x):
        for _ in tf.range(2):
            x = inner(x)
        return x

    trace = cgviz.trace(outer, 2.0)
    assert trace.value == 16.0
    assert trace.gradients[0] == 32.0
    assert [s.op.type for s in trace.steps] == ["Mul", "Mul"]


FOUR = np.float32(4.0)


def slope(x):
    """A function with a tape of its own, whose numbers tell what it was given."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    return tape.gradient(y, x)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (tf.function(slope), np.array([1.0, 2.0])),
        (tf.function(slope), np.float32(3.0)),
        (tf.function(slope, input_signature=[tf.TensorSpec([None], tf.float32)]), [1.0, 2.0]),
        (tf.function(slope, input_signature=[tf.TensorSpec([], tf.float64)]), np.int64(3)),
        (tf.function(lambda pair: slope(pair["a"][0])), {"a": [np.float64(2.0)]}),
        (tf.function(lambda x, y=FOUR: slope(y) + x), 1.0),
    ],
)
def test_an_opened_function_is_given_what_tensorflow_gives_its_graph(function, argument):
    plain = function(argument)
    with cgviz.record() as trace:
        recorded = function(argument)
    same(recorded.numpy(), plain)
    assert len(trace.passes) == 1


def test_an_opened_function_returns_what_its_graph_returns():
    v = tf.Variable(5.0)

    @tf.function
    def f(x):
        return (
            0.0,
            None,
            {"a": [1, x]},
            v,
            np.float64(2.0),
            tf.RaggedTensor.from_row_lengths([x], [1]),
        )

    plain = f(tf.constant(3.0))
    with cgviz.record():
        recorded = f(tf.constant(3.0))
    tf.nest.assert_same_structure(recorded, plain, expand_composites=True)
    flat = [tf.nest.flatten(each, expand_composites=True) for each in (recorded, plain)]
    for ours, theirs in zip(*flat, strict=True):
        assert type(ours) is type(theirs)
        same(None if ours is None else ours.numpy(), theirs)


def test_a_trace_names_the_functions_that_were_opened():
    @tf.function(jit_compile=True)
    def inner(x):
        return x * x

    @tf.function
    def outer(x):
        return inner(x) + inner(2.0 * x)

    trace = cgviz.trace(outer, 3.0)
    assert trace.notes == ("run eagerly: outer, inner",)
    assert "run eagerly: outer, inner" in repr(trace)
    assert "run eagerly: outer, inner" in trace.table()._repr_html_()
    assert cgviz.trace(outer, 3.0, open_functions=False).notes == ()
    assert cgviz.trace(square, 3.0).notes == ()


LIBRARYS = """
import tensorflow as tf

@tf.function
def librarys(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x) if not tf.executing_eagerly() else None
"""


def test_a_function_of_a_library_stays_closed():
    names = {}
    exec(compile(LIBRARYS, np.__file__, "exec"), names)
    with cgviz.record() as trace:
        assert names["librarys"](tf.constant(3.0)) == 6.0
    assert trace.passes == ()
    with pytest.raises(
        ValueError, match=r"run as a graph: librarys; .*run_eagerly=True.*run_functions_eagerly"
    ):
        trace.table()


def test_what_works_in_a_graph_only_stays_closed_by_itself():
    calls = []

    @tf.function
    def graph_only(x):
        calls.append(tf.executing_eagerly())
        return tf.gradients(x * x, x)[0]

    with cgviz.record() as trace:
        assert [graph_only(tf.constant(float(n))) for n in (2, 3)] == [4.0, 6.0]
    assert calls == [True, False]
    with pytest.raises(ValueError, match="no backward pass: run as a graph: graph_only"):
        trace.table()


def test_an_error_in_an_opened_function_is_raised_once():
    calls = []

    @tf.function
    def broken(x):
        calls.append(x)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        cgviz.trace(broken, 1.0)
    assert len(calls) == 1


@pytest.mark.parametrize("inside", [True, False])
def test_a_model_whose_functions_a_recording_opened_is_saved_with_their_graphs(inside, tmp_path):
    class Model(tf.Module):
        @tf.function
        def __call__(self, x, scale=2.0):
            return x * x * scale

    model = Model()
    with cgviz.record():
        model(tf.constant([2.0]))
        model(tf.constant(2.0))
        if inside:
            tf.saved_model.save(model, tmp_path)
    if not inside:
        tf.saved_model.save(model, tmp_path)
        same(model(tf.constant(2.0)).numpy(), 8.0)
    loaded = tf.saved_model.load(tmp_path)
    assert loaded(tf.constant(3.0)) == 18.0  # the graph of each call is there
    assert loaded(tf.constant([3.0])) == [18.0]


def test_an_opened_function_keeps_no_arguments():
    @tf.function
    def total(ragged, sparse, scale):
        return (tf.reduce_sum(ragged.to_tensor()) + tf.sparse.reduce_sum(sparse)) * scale

    kept = []
    for i in range(4):
        ragged = tf.ragged.constant([[1.0, float(i)], [2.0]])
        sparse = tf.sparse.from_dense([[1.0, 0.0]])
        kept += [weakref.ref(ragged), weakref.ref(sparse)]
        with cgviz.record():
            total(ragged, sparse, float("0.5"))
    del ragged, sparse
    gc.collect()
    assert [each() for each in kept] == [None] * 8


def test_a_trace_without_a_pass_says_where_the_pass_was():
    x = tf.constant([1.0, 2.0])
    with cgviz.record() as jacobian:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.jacobian(y, x)
    with cgviz.record() as rows:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        tape.jacobian(y, x, experimental_use_pfor=False)
    with cgviz.record(open_functions=False) as closed:
        tf.function(slope)(x)
    for trace, advice in (
        (jacobian, "experimental_use_pfor=False, and the tape persistent=True"),
        (closed, "open_functions=True"),
    ):
        with pytest.raises(ValueError, match=f"no backward pass: .*{advice}"):
            trace.chain_rule()
    assert len(rows.passes) == 2
    assert rows.notes == ()


REPLICAS = """
import tensorflow as tf
import cgviz

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    w = tf.Variable(2.0, name="w")

def step():
    x = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32) + 1.0
    with tf.GradientTape() as tape:
        y = w * x * x
    return tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(y, w))

with cgviz.record() as trace:
    result = strategy.run(step)
print([float(each) for each in strategy.experimental_local_results(result)])
print([float(each.gradients[0]) for each in trace.passes])
"""


def test_each_replica_of_a_mirrored_strategy_has_its_pass(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(REPLICAS)
    said = forked.printed(program)
    assert said.splitlines()[-2:] == ["[5.0, 5.0]", "[1.0, 4.0]"]


def test_jacobian_inside_a_recording_is_unharmed():
    x = tf.constant([1.0, 2.0])
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = square(x) * x
        jacobian = tape.jacobian(y, x)
        tape.gradient(y, x)
    np.testing.assert_allclose(jacobian, [[3.0, 0.0], [0.0, 12.0]])
    assert len(trace.passes) == 1


def test_forward_accumulators_beside_a_recording_keep_their_numbers():
    x = tf.constant(2.0)

    def jvp():
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = square(x) * tf.sin(x)
            g = tape.gradient(y, x)
        return acc.jvp(y), acc.jvp(g), g

    plain = jvp()
    with cgviz.record():
        recorded = jvp()
    assert [float(t) for t in plain] == [float(t) for t in recorded]


def test_a_recording_inside_a_recording_sees_its_part_and_hides_nothing():
    with cgviz.record() as outer:
        first = cgviz.trace(square, 2.0)
        with cgviz.record() as inner:
            second = cgviz.trace(square, 3.0)
    assert first.gradients[0] == 4.0
    assert second.gradients[0] == 6.0
    assert len(inner.passes) == 1
    assert [float(p.gradients[0]) for p in outer.passes] == [4.0, 6.0]


def test_two_threads_record_at_once_and_a_third_is_not_recorded():
    traces, started = {}, threading.Barrier(3)

    def work(n):
        started.wait()
        for _ in range(5):
            if n == 2:
                _, (g,) = tape_gradient(lambda x: square(x) * x, tf.constant(float(n)))
                traces[n] = float(g)
            else:
                traces[n] = cgviz.trace(lambda x: square(x) * tf.reshape(x, [1]), float(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert traces[2] == 12.0
    for n in (0, 1):
        assert traces[n].gradients[0] == 3.0 * n**2
        assert len(traces[n].steps) == 3


def test_recording_inside_a_graph_says_where_to_start_instead():
    @tf.function
    def f(x):
        with cgviz.record():
            return x

    with pytest.raises(RuntimeError, match=r"outside of `tf\.function`"):
        f(tf.constant(1.0))

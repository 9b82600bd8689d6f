"""Ranks: communicators as threads of this process, and, where MPI is there, as processes."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import RANKS, run_ranks

import rota


@pytest.fixture(params=[1, 2, 3])
def ranks(request: pytest.FixtureRequest) -> Iterator[list[rota.Communicator]]:
    devices = [rota.open("cpu", threads=1) for _ in range(request.param)]
    yield rota.Communicator.open_ranks(devices, name="test", timeout=10)
    for device in devices:
        device.close()


several = pytest.mark.parametrize("ranks", [2, 3], indirect=True)


def on_each(ranks: list[rota.Communicator], function: Callable[[rota.Communicator], Any]) -> list[Any]:
    """What the function gives on each rank, which is a thread; the first rank's error, if there is one."""
    results: list[Any] = [None] * len(ranks)
    errors: list[BaseException | None] = [None] * len(ranks)

    def run(rank: int) -> None:
        try:
            results[rank] = function(ranks[rank])
        except BaseException as error:
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results


def test_what_a_communicator_says(ranks: list[rota.Communicator]) -> None:
    size = len(ranks)
    assert [c.rank for c in ranks] == list(range(size))
    assert all(c.size == size and c.name == "test" and not c.closed for c in ranks)
    assert f"rank 0 of {size}, {'threads' if size > 1 else 'alone'} on cpu" in repr(ranks[0])
    ranks[0].close()
    assert ranks[0].closed and "closed" in repr(ranks[0])


def test_collectives(ranks: list[rota.Communicator]) -> None:
    size = len(ranks)

    def run(c: rota.Communicator) -> dict[str, Any]:
        x = c.device.tensor(np.arange(2 * size, dtype=np.float32) + 10 * c.rank)
        with rota.graph(c.device, gradients=False) as g:
            g.output("sum", rota.all_reduce(x, c))
            g.output("largest", rota.all_reduce(x, c, "max"))
            g.output("part", rota.reduce_scatter(x, c, "mean"))
            g.output("all", rota.all_gather(x, c))
            g.output("turned", rota.all_to_all(x, c))
            g.output("last", rota.broadcast_from(x, c, size - 1))
            if size > 1 and c.rank == 0:
                rota.send(x, c, 1)
            if c.rank == 1:
                g.output("received", rota.receive(c, 0, 2 * size))
            rota.barrier(c)
        return g.compile()().result()

    base = np.arange(2 * size, dtype=np.float32)
    tens = 10 * np.arange(size, dtype=np.float32)
    for rank, made in enumerate(on_each(ranks, run)):
        assert np.array_equal(made["sum"], size * base + tens.sum())
        assert np.array_equal(made["largest"], base + 10 * (size - 1))
        assert np.allclose(made["part"], (base + tens.mean())[2 * rank : 2 * rank + 2])
        assert np.array_equal(made["all"], np.concatenate([base + ten for ten in tens]))
        assert np.array_equal(made["turned"], np.concatenate([base[2 * rank : 2 * rank + 2] + ten for ten in tens]))
        assert np.array_equal(made["last"], base + tens[-1])
        if rank == 1:
            assert np.array_equal(made["received"], base)


def test_gradients_of_collectives(ranks: list[rota.Communicator]) -> None:
    """Of the sum of all ranks' losses."""

    def run(c: rota.Communicator) -> Any:
        x = c.device.tensor(np.full(4, 1.0 + c.rank, np.float32))
        with rota.graph(c.device) as g:
            y = rota.all_reduce(x, c)
            (dx,) = g.backward(rota.sum(y * y, 0), [x])
            g.output("dx", dx)
        return g.compile()().result()["dx"]

    size = len(ranks)
    total = size * (size + 1) / 2
    for dx in on_each(ranks, run):
        assert np.array_equal(dx, np.full(4, 2 * total * size, np.float32))


def test_a_model_of_all_ranks(ranks: list[rota.Communicator]) -> None:
    """Columns, rows and classes divided among the ranks: the loss and gradients of one rank with all of it."""
    random = np.random.default_rng(11)
    classes, dim, wide = 13, 6, 9
    shapes = ((classes, dim), (dim, wide), (wide, dim))
    table, w1, w2 = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    b1, b2 = (random.normal(size=n).astype(np.float32) for n in (wide, dim))
    tokens, labels = (random.integers(0, classes, 8).astype(np.int32) for _ in range(2))

    def run(c: rota.Communicator | None, device: rota.Device) -> Any:
        rows, columns = (slice(None), slice(None)) if c is None else (slice(*c.part(classes)), slice(*c.part(wide)))
        whole = (table[rows], w1[:, columns], b1[columns], w2[columns], b2)
        params = [device.tensor(np.ascontiguousarray(p)) for p in whole]
        index, label = device.tensor(tokens), device.tensor(labels)
        with rota.graph(device) as g:
            if c is None:
                x = rota.embedding(params[0], index)
                h = rota.linear(x, params[1], params[2], activation="gelu")
                y = rota.linear(h, params[3], params[4], residual=x)
                loss = rota.cross_entropy(rota.matmul(y, params[0], transpose_b=True), label)
            else:
                x = rota.embedding_of_ranks(params[0], index, c, classes)
                h = rota.linear_column(x, params[1], c, params[2], activation="gelu")
                y = rota.linear_row(h, params[3], c, params[4], residual=x)
                scores = rota.matmul(rota.copy_to_ranks(y, c), params[0], transpose_b=True)
                loss = rota.classifier_of_ranks(scores, label, c, classes)
            for i, gradient in enumerate(g.backward(loss, params)):
                g.output(f"d{i}", gradient)
            g.output("loss", loss)
        return g.compile()().result()

    one = run(None, rota.open("cpu"))
    for rank, made in enumerate(on_each(ranks, lambda c: run(c, c.device))):
        rows, columns = slice(*ranks[rank].part(classes)), slice(*ranks[rank].part(wide))
        parts = ((rows,), (slice(None), columns), (columns,), (columns,), (slice(None),))
        assert np.allclose(made["loss"], one["loss"], rtol=1e-5)
        for i, part in enumerate(parts):
            assert np.allclose(made[f"d{i}"], one[f"d{i}"][part], rtol=1e-4, atol=1e-6)


def loss_of(params: Any, x: rota.Tensor, y: rota.Tensor) -> rota.Tensor:
    hidden = rota.linear(x, params["w1"], activation="gelu")
    hidden = rota.dropout(hidden, 0.25, seed=rota.Constant(3), step=rota.Constant(0))
    return rota.mse(rota.linear(hidden, params["w2"]), y)


def test_training_is_that_of_one_rank(ranks: list[rota.Communicator]) -> None:
    """Rows of the batch divided among the ranks, dropout's masks too: losses and weights of one rank with all."""
    size, rows = len(ranks), 12
    random = np.random.default_rng(5)
    params = {
        "w1": random.normal(size=(6, 8)).astype(np.float32),
        "w2": random.normal(size=(8, 4)).astype(np.float32),
    }
    x = random.normal(size=(rows, 6)).astype(np.float32)
    y = random.normal(size=(rows, 4)).astype(np.float32)

    def run(c: rota.Communicator | None, device: rota.Device) -> tuple[list[float], Any]:
        own = slice(None) if c is None else slice(c.rank * rows // c.size, (c.rank + 1) * rows // c.size)
        batch = {"x": x[own].copy(), "y": y[own].copy()}
        trainer = rota.trainer(device, loss_of, params, rota.AdamW(lr=0.01), communicator=c, **batch)
        losses = [trainer(**batch) for _ in range(5)]
        return losses, trainer.params["w1"].numpy()

    with rota.open("cpu", threads=1) as device:
        losses, w1 = run(None, device)
    for own_losses, own_w1 in on_each(ranks, lambda c: run(c, c.device)):
        assert np.allclose(own_losses, losses, rtol=1e-5)
        assert np.allclose(own_w1, w1, rtol=1e-4, atol=1e-6)
    assert size == 1 or losses[0] > losses[-1]


def test_split(ranks: list[rota.Communicator]) -> None:
    def run(c: rota.Communicator) -> Any:
        half = c.split(c.rank % 2, key=-c.rank % 8, name="half")
        assert c.split(None) is None
        assert half is not None and half.name == "half"
        x = c.device.tensor(np.full(1, c.rank, np.float32))
        with rota.graph(c.device, gradients=False) as g:
            g.output("ranks", rota.all_gather(x, half))
        return g.compile()().result()["ranks"]

    for rank, made in enumerate(on_each(ranks, run)):
        assert sorted(made) == [r for r in range(len(ranks)) if r % 2 == rank % 2]


def test_what_is_wrong_is_said(ranks: list[rota.Communicator]) -> None:
    c = ranks[0]
    x = c.device.tensor(np.zeros(4, np.float32))
    with rota.graph(c.device) as g:
        with pytest.raises(rota.errors.InvalidArgument, match="'avg'.*expected 'sum'"):
            rota.all_reduce(x, c, "avg")
        with pytest.raises(rota.errors.InvalidArgument, match="'max', expected 'mean'"):
            g.backward(rota.sum(x, 0), [x], communicator=c, reduction="max")
    with rota.open("cpu", threads=1) as other, rota.graph(other):
        y = other.tensor(np.zeros(4, np.float32))
        with pytest.raises(rota.errors.InvalidArgument, match="is another's"):
            rota.all_reduce(y, c)
    with pytest.raises(rota.errors.InvalidArgument, match="no CUDA device"):
        rota.Communicator.open(c.device, nccl=True)
    c.close()
    with rota.graph(c.device), pytest.raises(rota.errors.WrongState, match="is closed"):
        rota.all_reduce(x, c)


@several
def test_ranks_that_differ_are_told(ranks: list[rota.Communicator]) -> None:
    def run(c: rota.Communicator) -> str:
        x = c.device.tensor(np.zeros(4 + c.rank, np.float32))
        with rota.graph(c.device, gradients=False) as g:
            g.output("y", rota.all_reduce(x, c))
        with pytest.raises(rota.errors.NodeFailed) as error:
            g.compile()().result()
        return str(error.value)

    for text in on_each(ranks, run):
        assert "the ranks' collectives differ: rank 0 is at all_reduce" in text


@several
def test_abort_ends_all(ranks: list[rota.Communicator]) -> None:
    def run(c: rota.Communicator) -> str:
        if c.rank == 0:
            c.abort("no more of it")
            return "no more of it"
        x = c.device.tensor(np.zeros(4, np.float32))
        with rota.graph(c.device, gradients=False) as g:
            g.output("y", rota.all_reduce(x, c))
        with pytest.raises(rota.errors.NodeFailed) as error:
            g.compile()().result()
        return str(error.value)

    for text in on_each(ranks, run):
        assert "no more of it" in text


def test_a_device_closes_its_communicators() -> None:
    devices = [rota.open("cpu", threads=1) for _ in range(2)]
    ranks = rota.Communicator.open_ranks(devices)
    devices[0].close()
    assert ranks[0].closed and not ranks[1].closed
    with pytest.raises(rota.errors.WrongState, match="closed"):
        ranks[0].split(0)
    devices[1].close()


def test_one_rank_alone(cpu: rota.Device) -> None:
    with rota.Communicator.open(cpu, transport="alone") as c:
        assert (c.rank, c.size) == (0, 1)
        with rota.graph(cpu, gradients=False) as g:
            g.output("y", rota.all_reduce(cpu.tensor(np.ones(3, np.float32)), c, "mean"))
        assert np.array_equal(g.compile()().result()["y"], np.ones(3, np.float32))


def test_ranks_meet_by_a_file(tmp_path: Path) -> None:
    def run(rank: int) -> list[float]:
        with (
            rota.open("cpu", threads=1) as device,
            rota.Communicator.open(device, rank=rank, size=2, address=f"file:{tmp_path}/here") as c,
        ):
            assert (c.rank, c.size) == (rank, 2) and "tcp" in repr(c)
            with rota.graph(device, gradients=False) as g:
                g.output("y", rota.all_reduce(device.tensor(np.full(3, 1 + c.rank, np.float32)), c))
            y: list[float] = g.compile()().result()["y"].tolist()
        return y

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, range(2))) == [[3.0, 3.0, 3.0]] * 2


def test_what_ranks_need_to_meet(cpu: rota.Device) -> None:
    with pytest.raises(rota.errors.InvalidArgument, match="expected \"host:port\""):
        rota.Communicator.open(cpu, rank=0, size=2, address="nowhere")
    with pytest.raises(rota.errors.InvalidArgument, match="rank 2 of 2"):
        rota.Communicator.open(cpu, rank=2, size=2, address="localhost:4000")
    with pytest.raises(rota.errors.Timeout, match="rank 1 did not find rank 0 at localhost:9"):
        rota.Communicator.open(cpu, rank=1, size=2, address="localhost:9", timeout=0.2)


PROCESS = """
import pathlib, sys
import numpy as np, rota
with rota.open("cpu", threads=1) as device, rota.Communicator.open(device) as c:
    with rota.graph(device, gradients=False) as g:
        g.output("y", rota.all_reduce(device.tensor(np.full(3, 1 + c.rank, np.float32)), c))
    said = f"{c.size} {g.compile()().result()['y'].tolist()}"
    pathlib.Path(sys.argv[1], str(c.rank)).write_text(said)
"""


def test_processes(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    run_ranks(pytestconfig, PROCESS, str(tmp_path))
    assert [(tmp_path / str(rank)).read_text() for rank in range(RANKS)] == ["2 [3.0, 3.0, 3.0]"] * RANKS


def test_orders_of_their_own() -> None:
    """Two communicators whose collectives each rank submits in another order: found, unless one's order is its own."""
    for own_order in (False, True):
        devices = [rota.open("cpu", threads=1) for _ in range(2)]
        first = rota.Communicator.open_ranks(devices, name="first", timeout=10)
        second = rota.Communicator.open_ranks(devices, name="second", timeout=10, own_order=own_order)

        def run(c: rota.Communicator, pair: list[list[rota.Communicator]]) -> None:
            x = c.device.tensor(np.ones(1, dtype=np.float32))
            waiting = []
            for i in range(2):
                with rota.graph(c.device, gradients=False) as g:
                    g.output("sum", rota.all_reduce(x, pair[(i + c.rank) % 2][c.rank]))
                waiting.append(g.compile()())
            for ticket in waiting:
                ticket.result()

        pair = [first, second]
        if own_order:
            on_each(first, lambda c: run(c, pair))
        else:
            with pytest.raises(rota.Error, match="orders of collectives differ"):
                on_each(first, lambda c: run(c, pair))
        for device in devices:
            device.close()

"""What processes see of each other's tensors. The argument is the library."""

import importlib
import sys

T = importlib.import_module(sys.argv[1])
mp = importlib.import_module(f"{sys.argv[1]}.multiprocessing")


def change(view, model, given, queue, go_on):
    view[1] += 5
    view.view(-1)[0].fill_(7.0)
    model.load_state_dict({name: t + 1 for name, t in model.state_dict().items()})
    T.optim.SGD(model.parameters(), 0.5).step()  # no gradient yet
    model.weight.grad = T.ones_like(model.weight)
    T.optim.SGD(model.parameters(), 0.5).step()
    given.fill_(3)
    queue.put(view[:1].clone())
    go_on.wait()


def shown(*tensors):
    for t in tensors:
        print(t.mul(1e4).round().tolist(), t.stride(), t.is_shared(), t.requires_grad)


def run(method):
    context = mp.get_context(method)
    base = T.zeros(4, 3)
    view = base[1:3].share_memory_()
    model = T.nn.BatchNorm1d(2).share_memory()
    given = T.zeros(2, 2, dtype=T.bfloat16).t()
    queue, go_on = context.SimpleQueue(), context.Event()
    process = context.Process(target=change, args=(view, model, given, queue, go_on))
    process.start()
    received = queue.get()
    go_on.set()
    process.join()
    print(method, process.exitcode, (view * 2).sum().item())
    shown(base, view, given, received, *model.parameters(), *model.buffers())
    view.mul_(2)
    model(T.arange(4.0).reshape(2, 2)).square().sum().backward()
    T.optim.SGD(model.parameters(), 0.1, momentum=0.9).step()
    shown(base, model.running_mean, *model.parameters())


def queued():
    queue = mp.SimpleQueue()
    x = T.arange(6).view(2, 3).t()
    queue.put(x)
    y = queue.get()
    y[0, 0] = 9
    shown(x, y)
    print(y.untyped_storage() is x.untyped_storage())
    for t in (T.empty(0), T.ones(1, requires_grad=True), T.ones(1, requires_grad=True) * 2):
        try:
            queue.put(t)
            print(queue.get().tolist(), t.share_memory_().is_shared())
        except RuntimeError as error:
            print(str(error)[:53])


if __name__ == "__main__":
    run("spawn")
    run("fork")
    queued()

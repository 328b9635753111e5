"""The functions and modules of PyTorch's note "Extending PyTorch", on both libraries."""

import pytest
from both import agree

import torchlike as torch


def functions(t):
    """The note's classes, over the library ``t``."""

    class LinearFunction(t.autograd.Function):
        @staticmethod
        def forward(input, weight, bias):
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            input, weight, bias = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0)
            return grad_input, grad_weight, grad_bias

    class Combined(LinearFunction):
        setup_context = t.autograd.Function.setup_context

        @staticmethod
        def forward(ctx, input, weight, bias=None):
            ctx.save_for_backward(input, weight, bias)
            return LinearFunction.forward(input, weight, bias)

    class MulConstant(t.autograd.Function):
        @staticmethod
        def forward(tensor, constant):
            return tensor * constant

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            ctx.constant = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            return (None, None) if grad_output is None else (grad_output * ctx.constant, None)

    class MyCube(t.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3, 3 * x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output[1])

        @staticmethod
        def backward(ctx, grad_output, grad_dx):
            x, dx = ctx.saved_tensors
            return grad_output * dx + grad_dx * 6 * x

    return LinearFunction, Combined, MulConstant, MyCube


def values(t, *shape, start=0.0):
    n = 1
    for length in shape:
        n *= length
    return ((t.arange(float(n), dtype=t.float64) + start) / n).reshape(shape).requires_grad_()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_linear(which, bias):
    def story(t):
        linear = functions(t)[which].apply
        x, w = values(t, 4, 3), values(t, 2, 3, start=1.0)
        b = values(t, 2) if bias else None
        out = linear(x, w, b)
        out.square().sum().backward()
        checked = t.autograd.gradcheck(linear, (x, w, b)), t.autograd.gradgradcheck(linear, (x, w, b))
        return out, x.grad, w.grad, b.grad if bias else None, checked

    agree(story)


def test_an_optional_argument_may_be_left_out():
    agree(lambda t: functions(t)[1].apply(values(t, 4, 3), values(t, 2, 3)))


def test_the_gradient_of_a_constant_is_none():
    def story(t):
        x = values(t, 3)
        out = functions(t)[2].apply(x, 5.5)
        return out, t.autograd.grad(out.sum(), x)

    agree(story)


def test_cube_with_its_slope_as_a_second_result():
    def story(t):
        cube = functions(t)[3].apply
        x = values(t, 3)
        (slope,) = t.autograd.grad(cube(x)[0].sum(), x, create_graph=True)
        (second,) = t.autograd.grad(slope.sum(), x)
        return slope, second, t.autograd.gradcheck(cube, x), t.autograd.gradgradcheck(cube, x)

    agree(story)


def module(t):
    """The note's Linear."""
    nn, function = t.nn, functions(t)[0]

    class Linear(nn.Module):
        def __init__(self, input_features, output_features, bias=True):
            super().__init__()
            self.input_features = input_features
            self.output_features = output_features
            self.weight = nn.Parameter(t.empty(output_features, input_features))
            if bias:
                self.bias = nn.Parameter(t.empty(output_features))
            else:
                self.register_parameter("bias", None)
            self.register_buffer("calls", t.zeros((), dtype=t.int64))
            nn.init.uniform_(self.weight, -0.1, 0.1)
            if self.bias is not None:
                nn.init.uniform_(self.bias, -0.1, 0.1)

        def forward(self, input):
            self.calls += 1
            return function.apply(input, self.weight, self.bias)

        def extra_repr(self):
            return f"input_features={self.input_features}, output_features={self.output_features}, " + (
                f"bias={self.bias is not None}"
            )

    return Linear


@pytest.mark.parametrize("bias", [False, True])
def test_module(bias):
    def story(t):
        layer = module(t)(3, 2, bias)
        inside = [bool((p.abs() <= 0.1).all()) and p.requires_grad and p.is_leaf for p in layer.parameters()]
        for p in layer.parameters():
            with t.no_grad():
                p.fill_(0.5)
        layer.double()
        x = values(t, 4, 3)
        out = t.nn.Sequential(layer, t.nn.ReLU())(x)
        out.sum().backward()
        state = {k: (v, v.dtype) for k, v in layer.state_dict().items()}
        names = [n for n, _ in layer.named_parameters()], layer._parameters.keys()
        return repr(layer), inside, out, x.grad, [p.grad for p in layer.parameters()], state, [*names[0], *names[1]]

    agree(story)


def test_registered_state_moves_together():
    def story(t):
        layer = module(t)(3, 2).to("meta")
        return [(n, x.device.type, tuple(x.shape)) for n, x in layer.state_dict().items()]

    agree(story)


@pytest.mark.parametrize("which", range(4))
def test_in_a_compiled_step(which):
    function = functions(torch)[which]
    inputs = [(4, 3), (2, 3), (2,)] if which < 2 else [(3,)]
    rest = (5.5,) if which == 2 else ()

    def step(*given):
        out = function.apply(*given, *rest)
        out = out if isinstance(out, torch.Tensor) else out[0]
        out.square().sum().backward()
        return out

    seen = []
    for run in (step, torch.compile(step, fullgraph=True)):
        given = [values(torch, *shape) for shape in inputs]
        for _ in range(3):
            out = run(*given)
        seen.append([out, *[x.grad for x in given]])
    torch.testing.assert_close(*seen)

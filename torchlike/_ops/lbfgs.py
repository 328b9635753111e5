"""Vector arithmetic of L-BFGS: flattening, moving along a direction, and the two-loop recursion."""

import jax.numpy as jnp
from jax import lax


def _flat(x):
    x = jnp.stack([x.real, x.imag], -1) if jnp.iscomplexobj(x) else x
    return x.reshape(-1)


def flatten(arrays):
    """All elements in one vector; a complex number counts as two."""
    return jnp.concatenate([_flat(a) for a in arrays])


def move(params, t, direction):
    """The parameters plus ``t`` times their parts of the flat direction."""
    moved, start = [], 0
    for p in params:
        n = p.size * (2 if jnp.iscomplexobj(p) else 1)
        part = t * lax.slice_in_dim(direction, start, start + n)
        start += n
        if jnp.iscomplexobj(p):
            pair = part.reshape(*p.shape, 2)
            part = lax.complex(pair[..., 0], pair[..., 1])
        moved.append(p + part.reshape(p.shape).astype(p.dtype))
    return moved


def slope(grad, direction):
    """(grad . direction, largest absolute gradient, sum of absolute gradients)."""
    size = jnp.abs(grad)
    return jnp.vdot(grad, direction), jnp.max(size, initial=0), jnp.sum(size)


def curvature(grad, previous, direction, t):
    """(y, s, y . s, its inverse, its quotient by y . y) of the last step."""
    y, s = grad - previous, direction * t
    ys = jnp.vdot(y, s)
    return y, s, ys, 1.0 / ys, ys / jnp.vdot(y, y)


def direct(grad, ys, ss, ro, scale):
    """Minus the inverse Hessian times the gradient (Nocedal & Wright, algorithm 7.4), and the alphas.

    ``ro`` is 0 for padding, which then changes nothing.
    """
    ys, ss = jnp.stack(ys), jnp.stack(ss)
    ro = jnp.stack([jnp.asarray(r).astype(grad.dtype) for r in ro])

    def down(q, pair):
        y, s, r = pair
        alpha = jnp.vdot(s, q) * r
        return q - alpha * y, alpha

    def up(r, pair):
        y, s, rho, alpha = pair
        return r + s * (alpha - jnp.vdot(y, r) * rho), None

    q, alphas = lax.scan(down, -grad, (ys, ss, ro), reverse=True)
    r, _ = lax.scan(up, q * jnp.asarray(scale).astype(grad.dtype), (ys, ss, ro, alphas))
    return r, alphas

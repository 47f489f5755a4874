"""What the models of record.py and record_moe.py are made of: sizes, parameters, and layers twice, in JAX and in numpy."""
import math

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

BATCH, SEQ, VOCAB, LAYER, EMBED = 4, 8, 32, 2, 16
DECAY = 0.1


class Param:
    """A parameter with its axes in declared order; `repeated` says that the first one is the repeat axis."""

    def __init__(self, dims, std, mean=0.0, repeated=True, decays=True):
        self.dims = ((LAYER,) if repeated else ()) + dims
        self.std, self.mean = std, mean
        self.decay = DECAY if decays and len(dims) >= 2 else 0.0


def norm_params(path, names, repeated):
    parts = {"g": Param((EMBED,), 0.1, mean=1.0, repeated=repeated), "b": Param((EMBED,), 0.1, repeated=repeated)}
    return {f"{path}.{name}": parts[name] for name in names}


class Model:
    """A model without states; one with states overrides all three."""

    def states(self):
        return {}

    def loss_and_states(self, p, s, x, y):
        return self.loss(p, x, y), s

    def numpy_loss_and_states(self, p, s, x, y):
        return self.loss_numpy(p, x, y), s


class GroupedAttention:
    """Grouped queries and rotary positions, of Llama and all that follow it."""
    kvheads, group, hdim, theta = 2, 2, 4, 10000.0

    def attention_params(self):
        h, g, d = self.kvheads, self.group, self.hdim
        return {"layer.attn.wq": Param((EMBED, h, g, d), 0.25), "layer.attn.wk": Param((EMBED, h, d), 0.25),
                "layer.attn.wv": Param((EMBED, h, d), 0.2), "layer.attn.wo": Param((h, g, d, EMBED), 0.2)}

    def jax_attend(self, w, a):
        """JAX, one row, query heads as a loop; rotation as a product of complex numbers."""
        half = self.hdim // 2
        turn = jnp.exp(1j * jnp.outer(jnp.arange(SEQ), self.theta ** (-jnp.arange(half) / half)))

        def rotate(q):
            z = (q[:, :half] + 1j * q[:, half:]) * turn
            return jnp.concatenate([z.real, z.imag], axis=1)

        out = 0.0
        for n in range(self.kvheads * self.group):
            kv, g = divmod(n, self.group)
            q, k, v = a @ w["attn.wq"][:, kv, g], a @ w["attn.wk"][:, kv], a @ w["attn.wv"][:, kv]
            out = out + jax_attention(rotate(q), rotate(k), v) @ w["attn.wo"][kv, g]
        return out

    def attend(self, w, a):
        """The lines of the .pmodel file, one einsum for each `dot`."""
        half = self.hdim // 2
        angle = np.arange(SEQ)[:, None] * self.theta ** (-2.0 * np.arange(half) / self.hdim)

        def rope(z):
            t = angle.reshape((SEQ,) + (1,) * (z.ndim - 3) + (half,))
            a, b = z[..., :half], z[..., half:]
            return np.concatenate([a * np.cos(t) - b * np.sin(t), b * np.cos(t) + a * np.sin(t)], axis=-1)

        q = rope(np.einsum("bse,ekgd->bskgd", a, w["attn.wq"]))
        k = rope(np.einsum("bse,ekd->bskd", a, w["attn.wk"]))
        s = causal_softmax(np.einsum("btkgd,bskd->bkgts", q, k) * self.hdim ** -0.5)
        o = np.einsum("bkgts,bskd->btkgd", s, np.einsum("bse,ekd->bskd", a, w["attn.wv"]))
        return np.einsum("btkgd,kgde->bte", o, w["attn.wo"])


def layer_params(p, i):
    return {path[6:]: a[i] for path, a in p.items() if path.startswith("layer.")}


def jax_layernorm(x, g, b):
    return jax.nn.standardize(x, axis=-1, epsilon=1e-5) * g + b


def jax_rmsnorm(x, g):
    return x / jnp.sqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5) * g


def jax_attention(q, k, v):
    visible = jnp.tril(jnp.ones((SEQ, SEQ), bool))
    return jax.nn.softmax(q @ k.T / math.sqrt(q.shape[-1]), axis=-1, where=visible) @ v


def layernorm(x, g, b):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g + b


def rmsnorm(x, g):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def silu(x):
    return x / (1 + np.exp(-x))


def causal_softmax(s):
    s = np.where(np.tril(np.ones((SEQ, SEQ), bool)), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def xent(logits, y):
    m = logits.max(-1)
    lse = m + np.log(np.exp(logits - m[..., None]).sum(-1))
    return float((lse - np.take_along_axis(logits, y[..., None], -1)[..., 0]).mean())

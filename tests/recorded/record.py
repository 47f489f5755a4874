#!/usr/bin/env python3
"""Records the reference values of the models in this folder; README.md says how and in which format.

Losses and gradients come from JAX in float64. Before anything is written they are checked against a second forward pass
in plain numpy (value and central differences of it), and the optimizer against optax. `--check` writes nothing and
compares with the files that are there.
"""
import argparse
import math
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

from parts import (BATCH, DECAY, EMBED, LAYER, SEQ, VOCAB, GroupedAttention, Model, Param, causal_softmax, gelu,
                   jax_attention, jax_layernorm, jax_rmsnorm, layer_params, layernorm, norm_params, rmsnorm, silu, xent)
from record_moe import DeepseekMoe, Mixtral

HERE = pathlib.Path(__file__).resolve().parent
LR, B1, B2, EPS, CLIP, STEPS = 1e-3, 0.9, 0.95, 1e-4, 1.0, 3
WEIGHT_UNIT = -8      # initial weights are integers times 2**-8: exact in float32, and short
BITS = 22             # recorded values keep this many bits of the largest one
FULL, STRIDE = 64, 13  # states of more than FULL elements are sampled
STATE_FLOOR = 1e-3


class Gpt2(Model):
    name, heads, hdim, ff = "gpt2_tiny", 2, 8, 4 * EMBED

    def params(self):
        h, d = self.heads, self.hdim
        p = {"wte": Param((VOCAB, EMBED), 0.25, repeated=False), "wpe": Param((SEQ, EMBED), 0.25, repeated=False)}
        p |= norm_params("layer.ln1", "gb", True) | norm_params("layer.ln2", "gb", True)
        # A key bias has no gradient but rounding, about |wq| |wv| |wo|: these are small enough to keep a float32 run's
        # rounding well below the floor of the error measure.
        for x in "qkv":
            p[f"layer.attn.w{x}"] = Param((EMBED, h, d), 0.1)
        for x in "qkv":
            p[f"layer.attn.b{x}"] = Param((h, d), 0.05, decays=False)
        p["layer.attn.bo"] = Param((EMBED,), 0.1, decays=False)
        p["layer.attn.wo"] = Param((h, d, EMBED), 0.06)
        p["layer.ffn.w1"] = Param((EMBED, self.ff), 0.25)
        p["layer.ffn.w2"] = Param((self.ff, EMBED), 0.125)
        p["layer.ffn.b1"] = Param((self.ff,), 0.1, decays=False)
        p["layer.ffn.b2"] = Param((EMBED,), 0.1, decays=False)
        return p | norm_params("lnf", "gb", False)

    def loss(self, p, x, y):
        """JAX, one row at a time, heads as a loop over matrices."""
        def row(x, y):
            h = p["wte"][x] + p["wpe"]
            for i in range(LAYER):
                w = layer_params(p, i)
                a = jax_layernorm(h, w["ln1.g"], w["ln1.b"])
                for n in range(self.heads):
                    q, k, v = (a @ w[f"attn.w{c}"][:, n] + w[f"attn.b{c}"][n] for c in "qkv")
                    h = h + jax_attention(q, k, v) @ w["attn.wo"][n]
                h = h + w["attn.bo"]
                a = jax_layernorm(h, w["ln2.g"], w["ln2.b"])
                a = jax.nn.gelu(a @ w["ffn.w1"] + w["ffn.b1"], approximate=True)
                h = h + a @ w["ffn.w2"] + w["ffn.b2"]
            return optax.softmax_cross_entropy_with_integer_labels(
                jax_layernorm(h, p["lnf.g"], p["lnf.b"]) @ p["wte"].T, y)
        return jnp.mean(jax.vmap(row)(x, y))

    def loss_numpy(self, p, x, y):
        """The lines of the .pmodel file, one einsum for each `dot`."""
        h = p["wte"][x] + p["wpe"]
        for i in range(LAYER):
            w = layer_params(p, i)
            a = layernorm(h, w["ln1.g"], w["ln1.b"])
            q, k, v = (np.einsum("bse,ehd->bshd", a, w[f"attn.w{c}"]) + w[f"attn.b{c}"] for c in "qkv")
            s = causal_softmax(np.einsum("bthd,bshd->bhts", q, k) * self.hdim ** -0.5)
            o = np.einsum("bhts,bshd->bthd", s, v)
            h = h + np.einsum("bthd,hde->bte", o, w["attn.wo"]) + w["attn.bo"]
            a = gelu(np.einsum("bse,ef->bsf", layernorm(h, w["ln2.g"], w["ln2.b"]), w["ffn.w1"]) + w["ffn.b1"])
            h = h + np.einsum("bsf,fe->bse", a, w["ffn.w2"]) + w["ffn.b2"]
        return xent(np.einsum("bse,ve->bsv", layernorm(h, p["lnf.g"], p["lnf.b"]), p["wte"]), y)


class Llama(Model, GroupedAttention):
    name, ff = "llama_tiny", 24

    def params(self):
        p = {"tok": Param((VOCAB, EMBED), 0.5, repeated=False), "head": Param((EMBED, VOCAB), 0.06, repeated=False)}
        p |= norm_params("layer.n1", "g", True) | norm_params("layer.n2", "g", True)
        p |= self.attention_params()
        p["layer.ffn.w1"] = Param((EMBED, self.ff), 0.25)
        p["layer.ffn.w3"] = Param((EMBED, self.ff), 0.25)
        p["layer.ffn.w2"] = Param((self.ff, EMBED), 0.2)
        return p | norm_params("nf", "g", False)

    def loss(self, p, x, y):
        """JAX, one row at a time."""
        def row(x, y):
            h = p["tok"][x]
            for i in range(LAYER):
                w = layer_params(p, i)
                h = h + self.jax_attend(w, jax_rmsnorm(h, w["n1.g"]))
                a = jax_rmsnorm(h, w["n2.g"])
                h = h + (jax.nn.silu(a @ w["ffn.w1"]) * (a @ w["ffn.w3"])) @ w["ffn.w2"]
            return optax.softmax_cross_entropy_with_integer_labels(jax_rmsnorm(h, p["nf.g"]) @ p["head"], y)
        return jnp.mean(jax.vmap(row)(x, y))

    def loss_numpy(self, p, x, y):
        """The lines of the .pmodel file, one einsum for each `dot`."""
        h = p["tok"][x]
        for i in range(LAYER):
            w = layer_params(p, i)
            h = h + self.attend(w, rmsnorm(h, w["n1.g"]))
            a = rmsnorm(h, w["n2.g"])
            u = silu(np.einsum("bse,ef->bsf", a, w["ffn.w1"])) * np.einsum("bse,ef->bsf", a, w["ffn.w3"])
            h = h + np.einsum("bsf,fe->bse", u, w["ffn.w2"])
        return xent(np.einsum("bse,ev->bsv", rmsnorm(h, p["nf.g"]), p["head"]), y)


def batch(tokens, step):
    """Row b of step t reads window t * BATCH + b: SEQ tokens, and the same moved by one."""
    starts = (step * BATCH + np.arange(BATCH)) * SEQ
    x = np.stack([tokens[s:s + SEQ] for s in starts])
    y = np.stack([tokens[s + 1:s + SEQ + 1] for s in starts])
    return x.astype(np.int64), y.astype(np.int64)


def initial(params, rng):
    p = {}
    for path, a in params.items():
        scaled = np.rint((a.mean + a.std * rng.standard_normal(a.dims)) * 2.0 ** -WEIGHT_UNIT)
        p[path] = scaled * 2.0 ** WEIGHT_UNIT
        assert np.array_equal(p[path].astype(np.float32).astype(np.float64), p[path])
    return p


def largest(arrays):
    return max(float(np.abs(a).max()) for a in arrays)


def check_gradients(model, p, s, x, y, loss, grad, rng):
    """Two forward passes agree, and so do the gradients with central differences of the numpy one."""
    assert abs(model.numpy_loss_and_states(p, s, x, y)[0] - loss) <= 1e-11, "the two forward passes differ"
    worst, h = 0.0, 1e-4
    floor = 1e-3 * largest(grad.values())
    for path in p:
        # The largest element, where a wrong factor shows best, and three others.
        picks = [int(np.abs(grad[path]).argmax())] + list(rng.choice(p[path].size, 3, replace=False))
        for at in picks:
            sides = []
            for k in (-2, -1, 1, 2):
                moved = dict(p, **{path: p[path].copy()})
                moved[path].flat[at] += k * h
                sides.append(model.numpy_loss_and_states(moved, s, x, y)[0])
            difference = (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / (12 * h)
            scale = max(float(np.abs(grad[path]).max()), floor)
            worst = max(worst, abs(difference - grad[path].flat[at]) / scale)
    assert worst <= 1e-7, f"gradients differ from central differences by {worst}"
    return worst


class Lines:
    def __init__(self):
        self.text = []

    def scalar(self, name, value):
        self.text.append(f"scalar {name} {value:.17g}")

    def tensor(self, name, a, unit, stride):
        largest_value = float(np.abs(a).max())
        values = np.rint(np.ldexp(a.ravel()[::stride], -unit)).astype(np.int64)
        dims = " ".join(map(str, a.shape))
        self.text.append(f"tensor {name} {a.ndim} {dims} {stride} {unit} {largest_value:.9g}")
        for i in range(0, len(values), 12):
            self.text.append(" ".join(map(str, values[i:i + 12])))

    def measured(self, name, a, floor, sampled):
        """`floor` is the smallest scale that errors of this tensor are ever divided by."""
        unit = math.ceil(math.log2(max(float(np.abs(a).max()), floor))) - BITS
        # Noise far below the floor (a key bias has no gradient) is not worth a digit that another machine would change.
        self.tensor(name, np.where(np.abs(a) < 2.0 ** (unit - 1), 0.0, a), unit,
                    STRIDE if sampled and a.size > FULL else 1)


def record(model, tokens, seed):
    rng = np.random.default_rng(seed)
    params = model.params()
    p = initial(params, rng)
    weights, steps = Lines(), Lines()
    for path in p:
        weights.tensor(path, p[path], WEIGHT_UNIT, 1)

    m = {path: np.zeros_like(a) for path, a in p.items()}
    v = {path: np.zeros_like(a) for path, a in p.items()}
    s = model.states()
    value_and_grad = jax.jit(jax.value_and_grad(model.loss_and_states, has_aux=True))
    peer = optax.adamw(LR, b1=B1, b2=B2, eps=EPS, weight_decay=DECAY,
                       mask={path: a.decay > 0 for path, a in params.items()})
    peer_p = {path: jnp.asarray(a) for path, a in p.items()}
    peer_state = peer.init(peer_p)

    for t in range(STEPS):
        x, y = batch(tokens, t)
        (loss, after), grad = value_and_grad(p, s, x, y)
        loss, grad = float(loss), {path: np.asarray(g) for path, g in grad.items()}
        assert all(g.dtype == np.float64 for g in grad.values())
        worst = check_gradients(model, p, s, x, y, loss, grad, rng)
        peer_after = model.numpy_loss_and_states(p, s, x, y)[1]
        s = {path: np.asarray(a) for path, a in after.items()}
        assert s.keys() == peer_after.keys() and all(np.allclose(s[k], peer_after[k], rtol=0, atol=1e-15) for k in s)

        norm = math.sqrt(sum(float((g * g).sum()) for g in grad.values()))
        scale = min(1.0, CLIP / (norm + 1e-6))
        clipped = {path: g * scale for path, g in grad.items()}
        for path in p:
            g = clipped[path]
            m[path] = B1 * m[path] + (1 - B1) * g
            v[path] = B2 * v[path] + (1 - B2) * g * g
            u = m[path] / (1 - B1 ** (t + 1)) / (np.sqrt(v[path] / (1 - B2 ** (t + 1))) + EPS)
            p[path] = p[path] - LR * (u + params[path].decay * p[path])

        updates, peer_state = peer.update(clipped, peer_state, peer_p)
        peer_p = optax.apply_updates(peer_p, updates)
        apart = largest(np.asarray(peer_p[path]) - p[path] for path in p)
        assert apart <= 1e-13, f"adamw differs from optax by {apart}"
        print(f"{model.name} step {t + 1}: loss {loss:.9f}, norm {norm:.6f}, clip scale {scale:.6f}, "
              f"central differences {worst:.1e}, optax {apart:.1e}")

        n, floor = t + 1, 1e-3 * largest(clipped.values())
        steps.scalar(f"{n}/loss", loss)
        steps.scalar(f"{n}/grad_norm", norm)
        steps.scalar(f"{n}/grad_max", largest(grad.values()))
        steps.scalar(f"{n}/clip_scale", scale)
        for path in p:
            steps.measured(f"{n}/grad/{path}", grad[path], 1e-3 * largest(grad.values()), n > 1)
        for path in p:
            steps.measured(f"{n}/value/{path}", p[path], LR, True)
            steps.measured(f"{n}/m/{path}", m[path], floor, True)
            steps.measured(f"{n}/v/{path}", v[path], floor * floor, True)
        for path in s:
            steps.measured(f"{n}/state/{path}", s[path], STATE_FLOOR, False)
    return {f"{model.name}.weights.txt": weights.text, f"{model.name}.steps.txt": steps.text}


def same(name, old, new):
    """Equal but for the last units, where another machine's BLAS may round otherwise."""
    if len(old) != len(new):
        return f"{name}: {len(old)} lines, {len(new)} now"
    for i, (a, b) in enumerate(zip(old, new)):
        a, b = a.split(), b.split()
        if len(a) != len(b):
            return f"{name}:{i + 1}: {len(a)} words, {len(b)} now"
        for one, two in zip(a, b):
            if one == two:
                continue
            try:
                left, right = float(one), float(two)
            except ValueError:
                return f"{name}:{i + 1}: {one}, {two} now"
            whole = left.is_integer() and right.is_integer()
            if not (abs(left - right) <= 2 if whole else math.isclose(left, right, rel_tol=1e-8)):
                return f"{name}:{i + 1}: {one}, {two} now"
    return None


def main():
    parser = argparse.ArgumentParser(description="record the reference values of this folder")
    parser.add_argument("--check", action="store_true", help="compare with the files that are there, write nothing")
    check = parser.parse_args().check

    count = STEPS * BATCH * SEQ + 1
    tokens = np.random.default_rng(7).integers(0, VOCAB, count).astype(np.uint8)
    path = HERE / "tokens.bin"
    if not check:
        path.write_bytes(tokens.tobytes())
    elif path.read_bytes() != tokens.tobytes():
        sys.exit("tokens.bin differs")

    for model, seed in ((Gpt2(), 11), (Llama(), 12), (Mixtral(), 13), (DeepseekMoe(), 13)):
        for name, lines in record(model, tokens, seed).items():
            if not check:
                (HERE / name).write_text("\n".join(lines) + "\n")
                continue
            error = same(name, (HERE / name).read_text().splitlines(), lines)
            if error:
                sys.exit(error)


if __name__ == "__main__":
    main()

"""Train the net of `RandomProcessFeatures` on images of random processes, and on nothing else.

python tools/random_process_net/train.py --seconds 600 --out random_process.npz

No file is read: every image is drawn here from a seed, so the net has seen no record of anybody.
An image is a stack of 48 dead leaves (Lee, Mumford & Huang 2001): shapes of random place, size,
angle, slenderness and colour, each with a colour gradient and half of them with a plane wave; the
frontmost covers. Noise with a falling spectrum is added. Two augmented views of an image must be
told from the views of all others (Chen et al., A simple framework for contrastive learning, 2020).

Needs PyTorch and a GPU. The same seed and number of steps give the same images and the same start;
a GPU adds in an order of its own, so the weights are alike and not equal to the bit. The file in
the package carries its seed, its steps and this script's hash.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

SIZE = 32
LEAVES = 48
BATCH = 1024
TEMPERATURE = 0.2
PEAK_RATE = 1.5e-3
WARM_UP = 200
AVERAGING = 0.999  # the weights that are kept are a running average
GROUPS = 8


class Block(nn.Module):
    """``relu(x + norm(conv(relu(norm(conv(x))))))``."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.first_norm = nn.GroupNorm(GROUPS, n_out)
        self.second = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, n_out)
        self.skip = None if n_in == n_out else nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.first_norm(self.first(x)))
        inner = self.second_norm(self.second(inner))
        return torch.relu(inner + (x if self.skip is None else self.skip(x)))


class Net(nn.Module):
    """A residual net of three stages of two blocks; gives the maps of its last two stages."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.stem_norm = nn.GroupNorm(GROUPS, width)
        widths = [width, width, 2 * width, 4 * width]
        self.stages = nn.ModuleList(
            nn.Sequential(Block(a, b, 1 if a == b else 2), Block(b, b, 1))
            for a, b in zip(widths[:-1], widths[1:], strict=True)
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.relu(self.stem_norm(self.stem(images)))
        x = self.stages[0](x)
        middle = self.stages[1](x)
        return middle, self.stages[2](middle)


class Contrast(nn.Module):
    """The net with a small head that is thrown away after training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = Net(width)
        self.head = nn.Sequential(nn.Linear(4 * width, 512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, views: Tensor) -> Tensor:
        last = self.net(views)[1].float().mean(dim=(2, 3))
        return functional.normalize(self.head(last), dim=1)


# Images -------------------------------------------------------------------------------------


def dead_leaves(n: int, draws: torch.Generator) -> Tensor:
    """Images ``(n, 3, SIZE, SIZE)`` in [0, 1]."""
    device = draws.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=draws, device=device)

    places = torch.arange(SIZE, device=device, dtype=torch.float32)
    y, x = torch.meshgrid(places, places, indexing="ij")
    centre = uniform(n, LEAVES, 2) * (SIZE + 8) - 4
    radius = 2 + 12 * uniform(n, LEAVES) ** 2
    turn = uniform(n, LEAVES) * math.pi
    slender = 0.3 + 0.7 * uniform(n, LEAVES)
    kind = uniform(n, LEAVES)
    along, across = _leaf_coordinates(x, y, centre, turn)
    u, v = (
        (along / radius[..., None, None]).abs(),
        (across / (radius * slender)[..., None, None]).abs(),
    )
    ellipse, rectangle, rhombus = u * u + v * v < 1, torch.maximum(u, v) < 0.9, u + v < 1.2
    kinds = kind[..., None, None]
    inside = torch.where(kinds < 0.4, ellipse, torch.where(kinds < 0.7, rectangle, rhombus))
    inside[:, -1] = True  # the last leaf is the ground
    front = inside.to(torch.uint8).argmax(dim=1)  # the first that covers
    return _painted(front, x, y, centre, radius, uniform, draws)


def _leaf_coordinates(x: Tensor, y: Tensor, centre: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
    dx, dy = x - centre[..., 0, None, None], y - centre[..., 1, None, None]
    cosine, sine = turn.cos()[..., None, None], turn.sin()[..., None, None]
    return dx * cosine + dy * sine, dy * cosine - dx * sine


def _painted(
    front: Tensor, x: Tensor, y: Tensor, centre: Tensor, radius: Tensor, uniform: Any, draws: Any
) -> Tensor:
    """Colour of the frontmost leaf at each pixel: plain, a gradient, a wave; then noise."""
    n = len(front)
    light, hue = uniform(n, LEAVES, 1), uniform(n, LEAVES, 3) - 0.5
    palette, strength = uniform(n, 1, 3) - 0.5, uniform(n, 1, 1)
    colour = light + strength * (hue + 0.5 * palette)  # from nearly grey to gaudy, one palette
    gradient = (uniform(n, LEAVES, 2, 3) - 0.5) * 0.08
    waving = (uniform(n, LEAVES, 1) < 0.5) * 0.35 * uniform(n, LEAVES, 1)
    frequency = 0.3 + 2.4 * uniform(n, LEAVES, 1) ** 1.5
    direction = uniform(n, LEAVES, 1) * 2 * math.pi
    wave = torch.cat([frequency * direction.cos(), frequency * direction.sin()], dim=2)
    tint = uniform(n, LEAVES, 3) * 2 - 1
    phase = uniform(n, LEAVES, 1) * 2 * math.pi
    leaves = torch.cat(
        [colour, gradient.flatten(2), waving, wave, tint, phase, centre], dim=2
    )  # 3 + 6 + 1 + 2 + 3 + 1 + 2 = 18 numbers
    places = front.reshape(n, -1, 1).expand(-1, -1, leaves.shape[2])
    at = torch.gather(leaves, 1, places).reshape(n, SIZE, SIZE, -1)
    dx, dy = x - at[..., 16], y - at[..., 17]
    slope = at[..., 3:9].reshape(n, SIZE, SIZE, 2, 3)
    shade = slope[..., 0, :] * dx[..., None] + slope[..., 1, :] * dy[..., None]
    ripple = torch.sin(at[..., 10] * x + at[..., 11] * y + at[..., 15]) * at[..., 9]
    image = at[..., :3] + shade + ripple[..., None] * at[..., 12:15]
    image = image.permute(0, 3, 1, 2) + _coloured_noise(n, uniform, draws)
    return image.clamp(0, 1)


def _coloured_noise(n: int, uniform: Any, draws: torch.Generator) -> Tensor:
    """Noise whose spectrum falls as a random power of the frequency, amplitude up to 0.15."""
    white = torch.randn((n, 3, SIZE, SIZE), generator=draws, device=draws.device)
    down = torch.fft.fftfreq(SIZE, device=draws.device)[:, None]
    across = torch.fft.rfftfreq(SIZE, device=draws.device)[None, :]
    radius = (down**2 + across**2).sqrt().clamp(min=1 / SIZE)
    power = 0.5 + 1.5 * uniform(n, 1, 1, 1)
    noise = torch.fft.irfft2(torch.fft.rfft2(white) * radius ** (-power), s=(SIZE, SIZE))
    noise = noise / noise.std(dim=(1, 2, 3), keepdim=True)
    return noise * 0.15 * uniform(n, 1, 1, 1)


def views(images: Tensor, draws: torch.Generator) -> Tensor:
    """One augmented view of each image: crop, mirror, light, contrast, saturation, hue, grey."""
    n, device = len(images), images.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=draws, device=device)

    area, aspect = 0.2 + 0.8 * uniform(n), torch.exp((uniform(n) - 0.5) * 2 * math.log(4 / 3))
    wide, high = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    mirror = torch.where(uniform(n) < 0.5, -1.0, 1.0)
    affine = torch.zeros((n, 2, 3), device=device)
    affine[:, 0, 0], affine[:, 1, 1] = wide * mirror, high
    affine[:, 0, 2] = (uniform(n) * 2 - 1) * (1 - wide)
    affine[:, 1, 2] = (uniform(n) * 2 - 1) * (1 - high)
    grid = functional.affine_grid(affine, list(images.shape), align_corners=False)
    seen = functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
    return _recoloured(seen, uniform).clamp(0, 1)


def _recoloured(images: Tensor, uniform: Any) -> Tensor:
    n = len(images)
    one = (n, 1, 1, 1)
    images = images * (0.6 + 0.8 * uniform(*one))
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    images = mean + (images - mean) * (0.6 + 0.8 * uniform(*one))
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device)[None, :, None, None]
    grey = (images * weights).sum(dim=1, keepdim=True)
    chroma = images - grey
    hue = (uniform(n) - 0.5) * 2 * 0.1 * 2 * math.pi
    turned = torch.einsum("nij,njhw->nihw", _turn_about_grey(hue), chroma)
    strength = torch.where(uniform(*one) < 0.2, 0.0, 0.6 + 0.8 * uniform(*one))
    return grey + turned * strength


def _turn_about_grey(angle: Tensor) -> Tensor:
    """Rotations of the colour cube about its grey diagonal."""
    axis = 1 / math.sqrt(3)
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    eye = torch.eye(3, device=angle.device)
    cross = axis * torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], device=angle.device)
    return cosine * eye + sine * cross + (1 - cosine) / 3


# Training -----------------------------------------------------------------------------------


def contrastive_loss(first: Tensor, second: Tensor) -> Tensor:
    """Each view must find the other of its image among all."""
    both = torch.cat([first, second])
    scores = both @ both.T / TEMPERATURE
    scores.fill_diagonal_(-1e4)
    n = len(first)
    partner = torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(scores.device)
    return functional.cross_entropy(scores.float(), partner)


def rate_at(step: int, n_steps: int) -> float:
    """Warm up, then half a cosine."""
    warm = min(1.0, (step + 1) / WARM_UP)
    return PEAK_RATE * warm * 0.5 * (1 + math.cos(math.pi * min(1.0, step / n_steps)))


def train(options: argparse.Namespace) -> tuple[Net, int]:
    """Give the averaged net and its number of steps."""
    device = torch.device(options.device)
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    draws = torch.Generator(device=device).manual_seed(options.seed)
    model = Contrast(options.width).to(device, memory_format=torch.channels_last)
    averaged = Contrast(options.width).to(device)
    averaged.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_RATE, weight_decay=1e-4, fused=device.type == "cuda"
    )
    is_fast = device.type == "cuda"
    embed = torch.compile(model) if is_fast else model
    draw = torch.compile(dead_leaves, dynamic=False) if options.compile_draws else dead_leaves
    n_steps, step, start = options.steps or 10**9, 0, time.perf_counter()
    while step < n_steps:
        with torch.no_grad():
            images = draw(options.batch, draws)
            pair = torch.cat([views(images, draws), views(images, draws)])
            pair = ((pair - 0.5) / 0.25).to(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=is_fast):
            seen = embed(pair)
        loss = contrastive_loss(seen[: options.batch], seen[options.batch :])
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, n_steps)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        decay = min(AVERAGING, (step + 1) / (step + 10))
        with torch.no_grad():
            kept, new = list(averaged.parameters()), list(model.parameters())
            torch._foreach_lerp_(kept, new, 1 - decay)
        step += 1
        if step == 100 and not options.steps:  # the clock decides how long the cosine is
            torch.cuda.synchronize()
            begun = time.perf_counter()
        if step == 200 and not options.steps:
            torch.cuda.synchronize()
            pace = (time.perf_counter() - begun) / 100
            left = options.seconds - (time.perf_counter() - start)
            n_steps = step + int(left / pace)
            print(f"pace {pace * 1000:.1f} ms, {n_steps} steps", flush=True)
        if step % 500 == 0:
            print(step, f"{float(loss):.3f}", f"{time.perf_counter() - start:.0f} s", flush=True)
            if options.out:
                write(averaged.net, options, step)
    return averaged.net, step


def write(net: Net, options: argparse.Namespace, n_steps: int) -> None:
    """Keep the weights in half precision, beside how they were made."""
    arrays = {name: value.detach().cpu().numpy() for name, value in net.state_dict().items()}
    script = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    facts = f"seed={options.seed} steps={n_steps} batch={options.batch} script={script}"
    aside = Path(options.out).with_suffix(".part.npz")
    np.savez(
        aside,
        made_by=np.array(facts),
        **{name: value.astype(np.float16) for name, value in arrays.items()},
    )
    aside.replace(options.out)


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=72)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile-draws", action="store_true")
    parser.add_argument("--out", default="random_process.npz")
    options = parser.parse_args()
    net, n_steps = train(options)
    write(net, options, n_steps)
    print("written", options.out, n_steps, "steps", flush=True)


if __name__ == "__main__":
    main()

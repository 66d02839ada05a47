"""Zero-mean normalised cross-correlation in full size by cuFFT, of images in the GPU's memory: correlation.py GPU."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import cupy

SIDE = 2048
HEIGHT, WIDTH = 157, 418
"""Size of the picture that `peerlane haystack make` hides."""
IMAGES = 64
WARM_UP = 4


def window_sums(values: Any) -> Any:
    """Returns the sums over all windows of the picture's size, by a table of sums."""
    table = cupy.zeros((SIDE + 1, SIDE + 1), cupy.float64)
    table[1:, 1:] = values
    table = table.cumsum(0).cumsum(1)
    return table[HEIGHT:, WIDTH:] - table[:-HEIGHT, WIDTH:] - table[HEIGHT:, :-WIDTH] + table[:-HEIGHT, :-WIDTH]


def main() -> None:
    cupy.cuda.Device(int(sys.argv[1])).use()
    picture = cupy.random.rand(HEIGHT, WIDTH, dtype=cupy.float32)
    picture -= picture.mean()
    spectrum = cupy.fft.rfft2(picture, (SIDE, SIDE)).conj()
    length = cupy.sqrt((picture * picture).sum())
    images = cupy.random.randint(0, 256, (8, SIDE, SIDE), dtype=cupy.uint8)

    def best(image: Any) -> Any:
        values = image.astype(cupy.float32)
        products = cupy.fft.irfft2(cupy.fft.rfft2(values) * spectrum, (SIDE, SIDE))
        products = products[: SIDE - HEIGHT + 1, : SIDE - WIDTH + 1]
        sums = window_sums(values)
        variance = window_sums(values * values) - sums * sums / (HEIGHT * WIDTH)
        return (products / (cupy.sqrt(cupy.maximum(variance, 1e-3)) * length)).max()

    for number in range(WARM_UP):
        best(images[number % len(images)])
    cupy.cuda.runtime.deviceSynchronize()
    begin = time.monotonic()
    for number in range(IMAGES):
        best(images[number % len(images)])
    cupy.cuda.runtime.deviceSynchronize()
    seconds = time.monotonic() - begin
    print(json.dumps({"mpixel_s": round(IMAGES * SIDE * SIDE / 1e6 / seconds)}))


main()

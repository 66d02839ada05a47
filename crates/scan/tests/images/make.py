#!/usr/bin/env python3
"""Writes the images next to it: `right-*` hold the mark of `mark.png` at 40, 24, `wrong-*` are no images. Needs Pillow."""
import io, random, struct, zlib
from pathlib import Path
from PIL import Image, ImageDraw

HERE = Path(__file__).resolve().parent
CHANCE = random.Random(4)


def mark():
    image = Image.new("RGB", (40, 32), (235, 235, 225))
    draw = ImageDraw.Draw(image)
    draw.rectangle((3, 3, 15, 28), fill=(200, 20, 30))
    draw.ellipse((16, 4, 36, 20), fill=(20, 40, 190))
    draw.rectangle((20, 23, 37, 29), fill=(20, 120, 30))
    return image


def scene():
    image = Image.new("RGB", (130, 90))
    draw = ImageDraw.Draw(image)
    for y in range(90):
        draw.line((0, y, 130, y), fill=(90 + y, 120, 200 - y))
    for _ in range(20):
        x, y = CHANCE.randrange(130), CHANCE.randrange(90)
        draw.rectangle((x, y, x + 9, y + 7), fill=tuple(CHANCE.randrange(256) for _ in range(3)))
    image.paste(mark(), (40, 24))
    return image


def store(name, image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    (HERE / name).write_bytes(out.getvalue())
    return out.getvalue()


def png(width, height, body, depth=8, color=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b"")


def main():
    whole = scene()
    gray = whole.convert("L")
    deep = Image.frombytes("I;16", gray.size, b"".join(struct.pack("<H", value * 257) for value in gray.tobytes()))
    store("mark.png", mark(), "PNG")
    jpeg = store("right-baseline.jpg", whole, "JPEG", quality=92, subsampling=2)
    store("right-444.jpg", whole, "JPEG", quality=92, subsampling=0)
    store("right-422.jpg", whole, "JPEG", quality=92, subsampling=1)
    store("right-progressive.jpg", whole, "JPEG", quality=92, progressive=True)
    store("right-progressive-gray.jpg", gray, "JPEG", quality=92, progressive=True)
    store("right-gray.jpg", gray, "JPEG", quality=92)
    store("right-restarts.jpg", whole, "JPEG", quality=92, restart_marker_blocks=2)
    store("right-rgb.jpg", whole, "JPEG", quality=92, keep_rgb=True)
    store("right-cmyk.jpg", whole.convert("CMYK"), "JPEG", quality=92)
    store("right-alpha.png", whole.convert("RGBA"), "PNG")
    store("right-palette.png", whole.quantize(64), "PNG")
    store("right-16bit.png", deep, "PNG")
    store("right-16bit.tiff", deep, "TIFF")
    store("right-plain.tiff", gray, "TIFF")
    store("right-lzw.tiff", whole, "TIFF", compression="tiff_lzw")
    store("right-plain.bmp", gray, "BMP")
    store("right-color.bmp", whole, "BMP")
    store("right-lossy.webp", whole, "WEBP", quality=90)
    plain = b"P5\n# a comment\n130 90\n255\n" + gray.tobytes()
    (HERE / "right-plain.pgm").write_bytes(plain)
    (HERE / "right-16bit.pgm").write_bytes(b"P5 130 90 65535\n" + b"".join(struct.pack(">H", v * 257) for v in gray.tobytes()))
    (HERE / "right-trailing.jpg").write_bytes(jpeg + b"\0" * 40)
    (HERE / "right-thin.pgm").write_bytes(b"P5 1 65535 255\n" + bytes(65534) + b"\n")
    (HERE / "right-flat.png").write_bytes(png(130, 90, bytes(131 * 90)))

    frame = jpeg.index(b"\xff\xc0")
    # The end is marked where it is, so that what there is can be searched.
    (HERE / "right-lying-height.jpg").write_bytes(jpeg[:frame + 5] + b"\x01\x00" + jpeg[frame + 7:])
    wrong = {
        "empty.jpg": b"", "text.jpg": b"not an image\n", "header.jpg": jpeg[:frame + 8],
        "12bit.jpg": jpeg[:frame + 4] + b"\x0c" + jpeg[frame + 5:],
        "zero-width.jpg": jpeg[:frame + 7] + b"\0\0" + jpeg[frame + 9:],
        "no-tables.jpg": jpeg[:frame] + jpeg[jpeg.index(b"\xff\xda"):],
        "cut.pgm": plain[:4000], "zero.pgm": b"P5 0 0 255\n", "huge.pgm": b"P5 4294967295 4294967295 255\n",
        "negative.pgm": b"P5 -1 5 255\n", "bomb.png": png(60000, 60000, bytes(1000)), "cut.png": png(130, 90, bytes(5000)),
        "zero.png": png(0, 90, b"\0"), "bad-depth.png": png(13, 9, bytes(200), depth=5),
        "cut.bmp": (HERE / "right-plain.bmp").read_bytes()[:3000], "cut.tiff": (HERE / "right-plain.tiff").read_bytes()[:2000],
        "loop.tiff": b"II*\0\x08\0\0\0\x01\0\0\x01\x03\0\x01\0\0\0\x05\0\0\0\x08\0\0\0\n",
        "cut.webp": (HERE / "right-lossy.webp").read_bytes()[:300],
    }
    for name, content in wrong.items():
        (HERE / f"wrong-{name}").write_bytes(content)


if __name__ == "__main__":
    main()
